// SPDX-License-Identifier: Apache-2.0
// Few query rows against a block of keys of the cache, for decoding: a row of scores per query, so
// that keys and values stream by once. The arithmetic of bf16_forward-inl.h. Included once per
// instruction set.

#if defined(MEGA_ATTENTION_BF16_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_ROWS_INL_H_
#undef MEGA_ATTENTION_BF16_ROWS_INL_H_
#else
#define MEGA_ATTENTION_BF16_ROWS_INL_H_
#endif

#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/bf16_forward-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// `count` <= kRowChunk query rows and the keys [begin, limit) of a block that each sees; 0, 0:
/// none.
struct FewRows {
  const uint32_t* q;  // words
  int64_t words;
  QueryRows state;  // but for q
  int64_t count;
  int32_t begin[kRowChunk];
  int32_t limit[kRowChunk];
  Range some;  // keys that some row sees, to whole sixteens
  int64_t head[kRowChunk];
  int64_t distance[kRowChunk];  // from each row's query to the block's first key
};
/// One thread's blocks for them.
struct FewRowsBlocks {
  float* scores;  // [kRowChunk][kBf16KeyBlock]
  uint32_t* p;    // [kRowChunk][kBf16KeyBlock / 2]

  explicit FewRowsBlocks(float* scratch)
      : scores(scratch), p(reinterpret_cast<uint32_t*>(scratch + kRowChunk * kBf16KeyBlock)) {}
};

/// Scores to probabilities; factor[r] = exp(old - new maximum).
HWY_INLINE void softmax_rows(const FewRows& rows, float* scores, const ScoreRule& rule,
                             float* factor) {
  HWY_ALIGN float block_max[32] = {}, max[32] = {}, shift[32];
  HWY_ALIGN float room[kBf16KeyBlock];
  const float scale = rule.softcap > 0 || rule.bias ? 1.0f : rule.scale;
  for (int64_t r = 0; r < rows.count; ++r) {
    float* s = scores + r * kBf16KeyBlock;
    if (rule.softcap > 0) cap_scores(s, rows.begin[r], rows.limit[r], rule);
    if (rule.bias) {
      add_biases(s, rows.begin[r], rows.limit[r], rule.scale,
                 rule.bias.run(rows.head[r], rows.distance[r], kBf16KeyBlock, room));
    }
    max[r] = rows.state.max[r];
    block_max[r] = scale_and_mask(s, rows.begin[r], rows.limit[r], scale);
  }
  rescale(block_max, max, shift, factor);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* s = scores + r * kBf16KeyBlock;
    const float sum = exponentials(s, rows.begin[r], rows.limit[r], shift[r]);
    rows.state.norm[r] = rows.state.norm[r] * factor[r] + sum;
    rows.state.max[r] = max[r];
  }
}

/// Words of the rounded probabilities, +0 where a row sees nothing.
template <class Steps>
HWY_INLINE void round_rows(const FewRows& rows, const FewRowsBlocks& blocks) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t begin = block_start(rows.begin[r], 16), limit = rows.limit[r];
    for (int64_t j = rows.some.begin; j < rows.some.end; j += kFloatLanes) {
      const FloatVec p = j >= begin && j < limit ? load(blocks.scores + r * kBf16KeyBlock + j)
                                                 : hn::Zero(FloatTag());
      store_words(Steps(), p, blocks.p + (r * kBf16KeyBlock + j) / 2);
    }
  }
}

/// The rows against the block; `ahead[part]`: words from there to what is read next. `keys`: of the
/// block, so far.
template <class Steps>
HWY_NOINLINE void attend_few_rows(const FewRows& rows, const FewRowsBlocks& blocks,
                                  const PackedKeys& packed, const int64_t* ahead, int64_t keys,
                                  const ScoreRule& rule) {
  const int64_t width = rows.state.width;
  HWY_ALIGN float factor[32];
  for (int64_t j = 0; j < rows.some.end; j += kKeyBlock) {
    const int64_t begin = std::max(rows.some.begin, j);
    const int64_t end = std::min(rows.some.end, j + kKeyBlock);
    if (begin >= end) continue;
    const int64_t part = j / kKeyBlock;
    dot_few_rows<Steps>(
        {rows.q, rows.words, 1}, {packed.keys_of[part] + begin - j, kKeyBlock, ahead[part]},
        {blocks.scores + begin, kBf16KeyBlock}, rows.count, end - begin, 0, rows.words);
  }
  softmax_rows(rows, blocks.scores, rule, factor);
  round_rows<Steps>(rows, blocks);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* sum = rows.state.sum + r * width;
    const FloatVec by = hn::Set(FloatTag(), factor[r]);
    for (int64_t d = 0; d < width; d += kFloatLanes) store(hn::Mul(load(sum + d), by), sum + d);
  }
  const WordsResult sums{rows.state.sum, width, SumStart::carry};
  const int64_t whole = std::min(rows.some.end, keys - (packed.odd_key < 0 ? 0 : 1));
  for (int64_t j = 0; j < whole; j += kKeyBlock) {
    const int64_t begin = std::max(rows.some.begin - j, int64_t{0}) / 2;
    const int64_t end = words_of(std::min(whole - j, kKeyBlock));
    const int64_t part = j / kKeyBlock;
    if (begin >= end) continue;
    dot_few_rows<Steps>({blocks.p + j / 2, kBf16KeyBlock / 2, 1},
                        {packed.values_of[part], width, ahead[part]}, sums, rows.count, width,
                        begin, end);
  }
  if (packed.odd_key >= 0 && packed.odd_key < rows.some.end) {
    dot_few_rows<Steps>({blocks.p + packed.odd_key / 2, kBf16KeyBlock / 2, 1},
                        {packed.odd_values, width}, sums, rows.count, width, 0, 1);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_ROWS_INL_H_
