// SPDX-License-Identifier: Apache-2.0
// The streaming softmax of bf16 attention, shared by training's forward and by the key/value cache:
// chunks of 32 queries against packed blocks of keys. Scores S^T[j, i] and sums Y^T[d, i] have a
// lane per query. Included once per instruction set.

#if defined(MEGA_ATTENTION_BF16_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_FORWARD_INL_H_
#undef MEGA_ATTENTION_BF16_FORWARD_INL_H_
#else
#define MEGA_ATTENTION_BF16_FORWARD_INL_H_
#endif

#include "kernels/attention/bf16_blocks-inl.h"
#include "kernels/elementary/several_vectors-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// 32 queries of one head and their running state.
struct Chunk {
  uint32_t* q;  // transposed words
  float* sum;   // [D][kChunk]
  float* max;
  float* norm;
  int64_t head;
  int64_t query;  // position of the first in its sequence
  int64_t queries;
};

/// One thread's blocks.
struct Bf16ForwardBlocks {
  uint32_t* keys;
  uint32_t* values;
  float* scores;  // [keys][kChunk]
  uint32_t* p;    // [keys / 2][kChunk] words
  uint32_t* keep;
  float* chunks;

  Bf16ForwardBlocks(const Bf16ForwardScratch& layout, float* scratch) {
    const auto take = [&]<class T>(T*& part, int64_t count) {
      part = reinterpret_cast<T*>(scratch);
      scratch += count;
    };
    take(keys, layout.keys());
    take(values, layout.values());
    take(scores, layout.scores());
    take(p, layout.scores() / 2);
    take(keep, layout.scores() / 32);
    take(chunks, layout.chunks * layout.chunk());
  }
};

/// Where the words of a block of keys and values are: in parts of `keys` keys. Word d / 2 of key j
/// of a part is at keys_of[part][j * row + d / 2 * step], values are row pairs.
struct PackedKeys {
  static constexpr int64_t kParts = kBf16KeyBlock / kKeyBlock;
  const uint32_t* keys_of[kParts];
  const uint32_t* values_of[kParts];
  int64_t keys;
  int64_t row;
  int64_t step;
  // A key of the block without a right neighbour, and the pair of its values and zeros. -1: none,
  // or the zeros are where they belong.
  int64_t odd_key = -1;
  const uint32_t* odd_values = nullptr;
};

/// The keys [begin, end) of the block at first_key that a chunk is multiplied with.
struct BlockOfKeys {
  int64_t first_key;
  int64_t begin;  // a multiple of 16
  int64_t end;
  Range clear;  // of these, whole sixteens that every query sees

  int64_t whole_end() const { return round_up<int64_t>(end, 16); }
};

/// Calls run(keys, masked) for the parts of a block, in order; `masked`: true_type unless every
/// query sees all of them.
template <class Run>
HWY_INLINE void for_parts(const BlockOfKeys& block, const Run& run) {
  run(Range{block.begin, block.clear.begin}, std::true_type());
  run(block.clear, std::false_type());
  run(Range{block.clear.end, block.whole_end()}, std::true_type());
}

/// s in place of the chunk's multiplied dot products.
HWY_INLINE void cap_lanes(float* scores, const BlockOfKeys& block, const ScoreRule& rule) {
  const FloatVec cap = hn::Set(FloatTag(), rule.softcap);
  for (int64_t i = block.begin * kChunk; i < block.end * kChunk; i += kFloatLanes) {
    store(hn::Mul(elementary::tanh<SimdOps>(load(scores + i)), cap), scores + i);
  }
}

/// Biases added to the chunk's scores.
HWY_INLINE void add_lane_biases(float* scores, const BlockOfKeys& block, const Chunk& chunk,
                                const DistanceBias& bias) {
  HWY_ALIGN float run[kBf16KeyBlock + kChunk];  // of the last key and the first query, downwards
  const int64_t last = block.end - 1;
  bias.run_down(chunk.head, block.first_key + last - chunk.query,
                block.end - block.begin + kChunk - 1, run);
  for (int64_t j = block.begin; j < block.end; ++j) {
    for (int64_t lane = 0; lane < kChunk; lane += kFloatLanes) {
      float* s = scores + j * kChunk + lane;
      store(hn::Add(load(s), load(run + last - j + lane)), s);
    }
  }
}

/// Largest scores of the lanes from `lane` on.
HWY_INLINE FloatVec largest_scores(const float* scores, const BlockOfKeys& block,
                                   const SeenLanes& seen, int64_t lane) {
  const FloatVec lowest = hn::Set(FloatTag(), -INFINITY);
  FloatVec max[4] = {lowest, lowest, lowest, lowest};
  for_parts(block, [&](Range keys, auto masked) HWY_ATTR {
    for (int64_t first = keys.begin; first < keys.end; first += 4) {
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        FloatVec score = load(scores + (first + i) * kChunk + lane);
        if constexpr (decltype(masked)::value) {
          score = hn::IfThenElse(seen.see(block.first_key + first + i), score, lowest);
        }
        max[i] = hn::Max(max[i], score);
      }
    }
  });
  return hn::Max(hn::Max(max[0], max[1]), hn::Max(max[2], max[3]));
}

/// What p of a vector of lanes needs.
struct SoftmaxLanes {
  const float* scores;
  FloatVec shift;
  FloatVec keep_scale;
  const uint32_t* keep;  // null without dropout
  int64_t lane;
};

/// As many chains of the sum of p at once.
inline constexpr int kChains = 4;
using FourRows = Several<FloatVec, kChains>;

/// p of keys from j on; `norm` adds them before dropout.
template <bool kMasked, bool kDrops>
HWY_INLINE FourRows probabilities_at(const SoftmaxLanes& lanes, int64_t first_key,
                                     const SeenLanes& seen, int64_t j, FourRows& norm) {
  FourRows x;
#pragma GCC unroll 4
  for (int i = 0; i < kChains; ++i) {
    const float* s = lanes.scores + (j + i) * kChunk + lanes.lane;
    x.of[i] = hn::Sub(load(s), lanes.shift);
  }
  FourRows p = elementary::exp_without_overflow<SeveralOps<kChains>>(x);
#pragma GCC unroll 4
  for (int i = 0; i < kChains; ++i) {
    if constexpr (kMasked) p.of[i] = hn::IfThenElseZero(seen.see(first_key + j + i), p.of[i]);
    norm.of[i] = hn::Add(norm.of[i], p.of[i]);
    if constexpr (kDrops) {
      p.of[i] = hn::Mul(p.of[i], keep_factors(lanes.keep, j + i, lanes.lane, lanes.keep_scale));
    }
  }
  return p;
}

/// rowsum16 of p for a vector of lanes; the words of (dropped) p go to p_words.
template <class Steps, bool kDrops>
HWY_INLINE FloatVec probabilities(const SoftmaxLanes& lanes, const BlockOfKeys& block,
                                  const SeenLanes& seen, uint32_t* p_words) {
  HWY_ALIGN float sum[16 * kFloatLanes];
  for (int64_t first = 0; first < 16; first += kChains) {
    FourRows norm = SeveralOps<kChains>::set(0);
    for_parts(block, [&](Range keys, auto masked) HWY_ATTR {
      constexpr bool kMasked = decltype(masked)::value;
      const int64_t at = block.first_key;
      FourRows own = norm;  // in registers
      for (int64_t j = keys.begin + first; j < keys.end; j += 16) {
        const FourRows p = probabilities_at<kMasked, kDrops>(lanes, at, seen, j, own);
        uint32_t* to = p_words + j / 2 * kChunk + lanes.lane;
        hn::StoreU(word_pairs(Steps(), p.of[0], p.of[1]), WordTag(), to);
        hn::StoreU(word_pairs(Steps(), p.of[2], p.of[3]), WordTag(), to + kChunk);
      }
      norm = own;
    });
    for (int64_t i = 0; i < kChains; ++i) store(norm.of[i], sum + (first + i) * kFloatLanes);
  }
  FloatVec half[8];
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) {
    half[i] = hn::Add(load(sum + i * kFloatLanes), load(sum + (i + 8) * kFloatLanes));
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) half[i] = hn::Add(half[i], half[i + 4]);
  return hn::Add(hn::Add(half[0], half[2]), hn::Add(half[1], half[3]));
}

/// Scores to rounded probabilities; updates maximum and norm; factor[lane] = exp(old - new
/// maximum). All vectors of lanes go through each step together: one alone would wait for itself.
template <class Steps>
HWY_INLINE void softmax_step(const Bf16ForwardBlocks& blocks, const Chunk& chunk,
                             const BlockOfKeys& block, const SeenKeys& seen_keys,
                             const SequenceDropout& dropout, float* factor) {
  const FloatTag d;
  constexpr int kVectors = kChunk / kFloatLanes;
  FloatVec shift[kVectors], sum[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t lane = v * kFloatLanes;
    const FloatVec old = load(chunk.max + lane);
    const FloatVec max =
        hn::Max(old, largest_scores(blocks.scores, block, SeenLanes(seen_keys, lane), lane));
    // A query that has seen only -inf shifts by 0: its probabilities are 0 and not NaN.
    shift[v] = hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, -INFINITY)), max);
    store(elementary::exp_without_overflow<SimdOps>(hn::Sub(old, shift[v])), factor + lane);
    store(max, chunk.max + lane);
  }
  for (int v = 0; v < kVectors; ++v) {
    const int64_t lane = v * kFloatLanes;
    const SeenLanes seen(seen_keys, lane);
    const SoftmaxLanes lanes{blocks.scores, shift[v], hn::Set(d, dropout.scale),
                             dropout.on ? blocks.keep : nullptr, lane};
    sum[v] = dropout.on ? probabilities<Steps, true>(lanes, block, seen, blocks.p)
                        : probabilities<Steps, false>(lanes, block, seen, blocks.p);
  }
  for (int v = 0; v < kVectors; ++v) {
    float* norm = chunk.norm + v * kFloatLanes;
    store(hn::Add(hn::Mul(load(norm), load(factor + v * kFloatLanes)), sum[v]), norm);
  }
}

/// What an item's walk over the keys needs besides the item.
struct Walk {
  ConstHeadsView q;
  HeadsView y;
  View lse_NT;  // optional
  int64_t q_per_kv;
  int64_t row;  // where position 0 of the sequence would be among the rows of q and y
  Sight sight;
  ScoreRule rule;
  SequenceDropout dropout;
};

/// Scores of a chunk and the keys of a block.
template <class Steps>
HWY_INLINE void chunk_scores(const Bf16ForwardScratch& layout, const PackedKeys& packed,
                             const Chunk& chunk, const BlockOfKeys& block, const ScoreRule& rule,
                             float* scores) {
  for (int64_t part = 0; part * packed.keys < block.end; ++part) {
    const int64_t begin = std::max(block.begin - part * packed.keys, int64_t{0});
    const int64_t end = std::min(block.end - part * packed.keys, packed.keys);
    if (begin >= end) continue;
    dot_product<Steps>({packed.keys_of[part] + begin * packed.row, packed.row, packed.step},
                       {chunk.q, kChunk},
                       {.data = scores + (part * packed.keys + begin) * kChunk,
                        .row = kChunk,
                        .times = rule.factor()},
                       end - begin, kChunk, 0, layout.words);
  }
  if (rule.softcap > 0) cap_lanes(scores, block, rule);
  if (rule.bias) add_lane_biases(scores, block, chunk, rule.bias);
}

/// A chunk against a block of keys.
template <class Steps>
HWY_INLINE void attend(const Walk& walk, const Bf16ForwardScratch& layout,
                       const Bf16ForwardBlocks& blocks, const PackedKeys& packed,
                       const Chunk& chunk, const BlockOfKeys& block) {
  chunk_scores<Steps>(layout, packed, chunk, block, walk.rule, blocks.scores);
  if (walk.dropout.on) {
    keep_bits(walk.dropout, chunk.head, chunk.query, chunk.queries, block.first_key, block.end,
              blocks.keep);
  }
  HWY_ALIGN float factor[kChunk];
  softmax_step<Steps>(blocks, chunk, block, SeenKeys(walk.sight, chunk.query, chunk.queries),
                      walk.dropout, factor);
  WordsResult sums{chunk.sum, kChunk, SumStart::scaled, factor};
  const bool has_odd = packed.odd_key == block.end - 1;
  for (int64_t part = 0; part * packed.keys < block.end; ++part) {
    const int64_t before = part * packed.keys;
    const int64_t begin = std::max(block.begin - before, int64_t{0}) / 2;
    const int64_t end = std::min(block.end - before + (has_odd ? 0 : 1), packed.keys) / 2;
    if (begin >= end) continue;
    dot_product<Steps>({packed.values_of[part], 1, layout.width},
                       {blocks.p + before / 2 * kChunk, kChunk}, sums, layout.size, kChunk, begin,
                       end);
    sums.start = SumStart::carry;
  }
  if (has_odd) {
    dot_product<Steps>({packed.odd_values, 1, layout.width},
                       {blocks.p + block.end / 2 * kChunk, kChunk}, sums, layout.size, kChunk, 0,
                       1);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_FORWARD_INL_H_
