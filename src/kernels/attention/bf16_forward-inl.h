// SPDX-License-Identifier: Apache-2.0
// The streaming softmax of bf16 attention (attention_bf16.h), shared by training's forward and by
// the key/value cache: chunks of 32 queries against packed blocks of keys. Scores S^T[j, i] and
// sums Y^T[d, i] have a lane per query. For AVX-512 only; included inside foreach_target's passes.

#if defined(MEGA_ATTENTION_BF16_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_FORWARD_INL_H_
#undef MEGA_ATTENTION_BF16_FORWARD_INL_H_
#else
#define MEGA_ATTENTION_BF16_FORWARD_INL_H_
#endif

#include "kernels/attention/bf16_blocks-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// 32 queries of one head and their running state.
struct Chunk {
  uint32_t* q;  // transposed words
  float* sum;   // [D][kChunk]
  float* max;   // of scale * log2(e) * score: exponentials are taken to base 2
  float* norm;
  int64_t head;
  int64_t query;  // position of the first in its sequence
  int64_t queries;
};

/// One thread's blocks.
struct ForwardBlocks {
  uint32_t* keys;    // rows, or row pairs of the transposed keys
  uint32_t* values;  // row pairs
  float* scores;     // [keys][kChunk]
  uint32_t* p;       // [keys / 2][kChunk] words
  uint32_t* keep;
  float* chunks;

  ForwardBlocks(const Bf16ForwardScratch& layout, float* scratch) {
    uint32_t* words = reinterpret_cast<uint32_t*>(scratch);
    keys = words;
    values = keys + layout.keys();
    p = values + layout.values();
    keep = p + layout.scores() / 2;
    scores = scratch + (keep - words) + layout.scores() / 32;
    chunks = scores + layout.scores();
  }
};

/// The part of a block of keys that a chunk sees.
struct Seen {
  int64_t first_key;
  int64_t keys;
  bool masked;  // some query does not see some of these keys
};

/// Largest scores of the lanes [half, half + 16).
HWY_INLINE __m512 largest_scores(const float* scores, const Seen& seen, int64_t query,
                                 int64_t half) {
  __m512 max = _mm512_set1_ps(-INFINITY);
  if (!seen.masked) {
    for (int64_t j = 0; j < seen.keys; ++j) {
      max = _mm512_max_ps(max, _mm512_loadu_ps(scores + j * kChunk + half));
    }
    return max;
  }
  for (int64_t j = 0; j < seen.keys; ++j) {
    max = _mm512_mask_max_ps(max, causal_lanes(query + half, seen.first_key + j), max,
                             _mm512_loadu_ps(scores + j * kChunk + half));
  }
  return max;
}

struct SoftmaxStep {
  __m512 scale, shift;
  __m512 keep_scale;
  const uint32_t* keep;  // null without dropout
  int64_t query;         // of lane 0 of this half
  int64_t half;
};

/// p of one key for 16 queries; `norm` adds it before dropout.
HWY_INLINE __m512 probability(const float* scores, const Seen& seen, const SoftmaxStep& step,
                              int64_t j, __m512& norm) {
  const __m512 s = _mm512_loadu_ps(scores + j * kChunk + step.half);
  __m512 p = exp2_16(_mm512_fmsub_ps(s, step.scale, step.shift));
  if (seen.masked) p = _mm512_maskz_mov_ps(causal_lanes(step.query, seen.first_key + j), p);
  norm = _mm512_add_ps(norm, p);
  if (step.keep != nullptr) {
    p = _mm512_maskz_mul_ps(kept_lanes(step.keep, j, step.half), p, step.keep_scale);
  }
  return p;
}

/// Scores to rounded probabilities; updates maximum and norm; factor[lane] = exp(old - new
/// maximum).
HWY_INLINE void softmax_step(const ForwardBlocks& blocks, const Chunk& chunk, const Seen& seen,
                             float scale, const SequenceDropout& dropout, float* factor) {
  const __m512 lowest = _mm512_set1_ps(-INFINITY);
  for (int64_t half = 0; half < kChunk; half += 16) {
    const __m512 by = _mm512_set1_ps(scale * kLog2E);
    const __m512 old = _mm512_loadu_ps(chunk.max + half);
    const __m512 largest = largest_scores(blocks.scores, seen, chunk.query, half);
    const __m512 max = _mm512_max_ps(old, _mm512_mul_ps(largest, by));
    // A query that has seen only -inf shifts by 0: its probabilities are 0 and not NaN.
    const __m512 shift = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(max, lowest, _CMP_NEQ_UQ), max);
    const __m512 rescale = exp2_16(_mm512_sub_ps(old, shift));
    const SoftmaxStep step{by,
                           shift,
                           _mm512_set1_ps(dropout.scale),
                           dropout.on ? blocks.keep : nullptr,
                           chunk.query + half,
                           half};
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    int64_t j = 0;
    for (; j + 2 <= seen.keys; j += 2) {
      const __m512 p0 = probability(blocks.scores, seen, step, j, even);
      const __m512 p1 = probability(blocks.scores, seen, step, j + 1, odd);
      _mm512_storeu_si512(blocks.p + j / 2 * kChunk + half, word_pairs(p0, p1));
    }
    if (j < seen.keys) {
      const __m512 p0 = probability(blocks.scores, seen, step, j, even);
      _mm512_storeu_si512(blocks.p + j / 2 * kChunk + half, word_pairs(p0, _mm512_setzero_ps()));
    }
    const __m512 norm = _mm512_loadu_ps(chunk.norm + half);
    _mm512_storeu_ps(chunk.norm + half, _mm512_fmadd_ps(norm, rescale, _mm512_add_ps(even, odd)));
    _mm512_storeu_ps(chunk.max + half, max);
    _mm512_storeu_ps(factor + half, rescale);
  }
}

/// Packed keys in blocks of `keys`, `distance` words apart; word d / 2 of key j of a block at
/// data[j * row + d / 2 * step].
struct KeyWords {
  const uint32_t* data;
  int64_t row;
  int64_t step;
  int64_t keys;
  int64_t distance;
};

/// A chunk against the packed keys at seen.first_key.
HWY_INLINE void attend(float scale, const Bf16ForwardScratch& layout, const ForwardBlocks& blocks,
                       const KeyWords& keys, const Chunk& chunk, const Seen& seen,
                       const SequenceDropout& dropout) {
  for (int64_t j = 0; j < seen.keys; j += keys.keys) {
    dot_panel<2>({keys.data + j / keys.keys * keys.distance, keys.row, keys.step},
                 {chunk.q, kChunk}, {blocks.scores + j * kChunk, kChunk},
                 std::min(keys.keys, seen.keys - j), 0, layout.words);
  }
  if (dropout.on) {
    keep_bits(dropout, chunk.head, chunk.query, chunk.queries, seen.first_key, seen.keys,
              blocks.keep);
  }
  alignas(64) float factor[kChunk];
  softmax_step(blocks, chunk, seen, scale, dropout, factor);
  dot_panel<2>({blocks.values, 1, layout.width}, {blocks.p, kChunk},
               {chunk.sum, kChunk, SumStart::scaled, factor}, layout.size, 0, words_of(seen.keys));
}

HWY_INLINE Chunk chunk_of(const Bf16ForwardScratch& layout, const AttentionItem& item,
                          int64_t q_per_kv, float* chunks, int64_t number) {
  const int64_t per_head = (item.end - item.begin + kChunk - 1) / kChunk;
  const int64_t query = item.begin + number % per_head * kChunk;
  float* own = chunks + number * layout.chunk();
  float* sum = own + layout.words * kChunk;
  float* max = sum + layout.size * kChunk;
  return {reinterpret_cast<uint32_t*>(own),
          sum,
          max,
          max + kChunk,
          item.group * q_per_kv + number / per_head,
          query,
          std::min(kChunk, item.end - query)};
}

/// `row`: where position 0 of the sequence would be among the rows of q and y.
HWY_INLINE void start_chunk(const ConstHeadsView& q, const Chunk& chunk, int64_t row) {
  pack_transposed(q, row + chunk.query, chunk.head, chunk.queries, chunk.q);
  std::fill(chunk.sum, chunk.max, 0.0f);
  std::fill(chunk.max, chunk.max + kChunk, -INFINITY);
  std::fill(chunk.norm, chunk.norm + kChunk, 0.0f);
}

/// Writes y, and lse if it is given.
HWY_INLINE void finish_chunk(const HeadsView& y, const View& lse_NT, const Chunk& chunk,
                             int64_t row) {
  alignas(64) float inverse[kChunk], lse[kChunk];
  for (int64_t half = 0; half < kChunk; half += 16) {
    const __m512 norm = _mm512_loadu_ps(chunk.norm + half);
    _mm512_store_ps(inverse + half, _mm512_div_ps(_mm512_set1_ps(1.0f), norm));
    const __m512 log = elementary::log<SimdOps>(FloatVec{norm}).raw;
    _mm512_store_ps(lse + half,
                    _mm512_fmadd_ps(_mm512_loadu_ps(chunk.max + half), _mm512_set1_ps(kLn2), log));
  }
  write_transposed(chunk.sum, inverse, y, row + chunk.query, chunk.head, chunk.queries);
  if (lse_NT.absent()) return;
  std::copy(lse, lse + chunk.queries, lse_NT.row<float>(chunk.head) + row + chunk.query);
}

/// What an item's walk over the keys needs besides the item. `row` as of start_chunk.
struct Walk {
  ConstHeadsView q;
  HeadsView y;
  View lse_NT;  // optional
  float scale;
  int64_t q_per_kv;
  int64_t row;
  int64_t known;  // keys that some row of the item sees
  bool causal;
  KeyWords words;  // where pack() puts the keys
};

/// All chunks of an item, whose rows are counted by their positions in the sequence, against blocks
/// of keys that `pack(first_key, keys)` puts into `blocks`.
template <typename Pack>
HWY_INLINE void walk_keys(const Walk& walk, const Bf16ForwardScratch& layout,
                          const AttentionItem& item, const ForwardBlocks& blocks,
                          const SequenceDropout& dropout, const Pack& pack) {
  const int64_t chunks = walk.q_per_kv * ((item.end - item.begin + kChunk - 1) / kChunk);
  const auto chunk_at = [&](int64_t c) {
    return chunk_of(layout, item, walk.q_per_kv, blocks.chunks, c);
  };
  for (int64_t c = 0; c < chunks; ++c) start_chunk(walk.q, chunk_at(c), walk.row);
  for (int64_t first_key = 0; first_key < walk.known; first_key += kForwardKeys) {
    const int64_t keys = std::min(kForwardKeys, walk.known - first_key);
    pack(first_key, keys);
    for (int64_t c = 0; c < chunks; ++c) {
      const Chunk chunk = chunk_at(c);
      const int64_t last = chunk.query + chunk.queries;
      const int64_t seen = walk.causal ? std::min(keys, last - first_key) : keys;
      if (seen <= 0) continue;
      attend(walk.scale, layout, blocks, walk.words, chunk,
             {first_key, seen, walk.causal && first_key + seen - 1 > chunk.query}, dropout);
    }
  }
  for (int64_t c = 0; c < chunks; ++c) finish_chunk(walk.y, walk.lse_NT, chunk_at(c), walk.row);
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3
#endif  // MEGA_ATTENTION_BF16_FORWARD_INL_H_
