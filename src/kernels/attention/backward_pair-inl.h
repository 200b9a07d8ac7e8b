// SPDX-License-Identifier: Apache-2.0
// Backward's step: the five products of a 64-query and a 64-key block whose heads are packed.
// Included once per instruction set.

#if defined(MEGA_ATTENTION_BACKWARD_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
#undef MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
#else
#define MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
#endif

#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/backward_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

struct BackwardBlocks {
  float *keys_JD, *keys_DJ, *values_JD, *values_DJ;
  float *q_ID, *dy_ID;
  float *dk_JD, *dv_JD;  // the layout's partials of each
  float *p_IJ, *dropped_IJ, *ds_IJ;
  float* slope_IJ;  // of the scores in the dot products; null without a softcap
  float* dq_ID;
  float* diagonals;  // of the head's distances to the block of keys; null: not wanted

  BackwardBlocks(const BackwardScratch& layout, float* scratch) {
    const auto take = [&](int64_t floats) HWY_ATTR {
      float* part = scratch;
      scratch += floats;
      return part;
    };
    for (float** block : {&keys_JD, &keys_DJ, &values_JD, &values_DJ, &q_ID, &dy_ID}) {
      *block = take(layout.block());
    }
    dk_JD = take(layout.partials * layout.block());
    dv_JD = take(layout.partials * layout.block());
    for (float** square : {&p_IJ, &dropped_IJ, &ds_IJ}) *square = take(kKeyBlock * kKeyBlock);
    slope_IJ = layout.squares > 3 ? take(kKeyBlock * kKeyBlock) : nullptr;
    dq_ID = take(layout.dq_rows * layout.width);
    diagonals = layout.diagonals > 0 ? take(layout.diagonals) : nullptr;
  }
  /// With partial number n of dk and dv.
  BackwardBlocks of_partial(const BackwardScratch& layout, int64_t n) const {
    BackwardBlocks part = *this;
    part.dk_JD += n * layout.block();
    part.dv_JD += n * layout.block();
    return part;
  }
};

/// One sequence as the item sees it.
struct SequencePlace : SequenceRows {
  int64_t probabilities;
  SequenceDropout dropout;

  SequencePlace(const AttentionBackward& a, int64_t sequence)
      : SequenceRows(rows_of(a.sequences, sequence)),
        probabilities(probabilities_offset(a.sequences, sequence, a.q_TND.num_heads)),
        dropout(a.sequences, a.dropout, sequence) {}
};

/// Parts of the rows of a block: [begin[r], end[r]) of another block.
struct Parts {
  int32_t begin[kKeyBlock];
  int32_t end[kKeyBlock];

  void set(int64_t r, Range part) {
    begin[r] = static_cast<int32_t>(part.begin);
    end[r] = static_cast<int32_t>(part.end);
  }
};

/// Query rows [query, query + queries) of `head` against keys [key, key + keys).
struct Pair {
  int64_t head;
  int64_t query, queries;
  int64_t key, keys;
  bool first_keys;   // of those that the queries see
  bool masked;       // some query does not see some key
  Range some;        // keys that some query sees
  Parts of_queries;  // the keys that each sees
  Parts of_keys;     // the queries that see each; unset unless masked

  Pair(int64_t h, int64_t i, int64_t j, const Sight& sight)
      : head(h),
        query(i),
        queries(std::min(kKeyBlock, sight.queries - i)),
        key(j),
        keys(std::min(kKeyBlock, sight.keys - j)),
        first_keys(j == block_start(sight.keys_of(i).begin)),
        masked(!sight.all_see_all({i, i + queries}, {j, j + keys})),
        some{masked ? kKeyBlock : 0, masked ? 0 : keys} {
    if (!masked) {
      std::fill_n(of_queries.begin, queries, 0);
      std::fill_n(of_queries.end, queries, static_cast<int32_t>(keys));
      return;
    }
    for (int64_t r = 0; r < queries; ++r) {
      const Range seen = part_of_block(sight.keys_of(i + r), j, keys);
      of_queries.set(r, seen);
      if (!seen.empty()) some = {std::min(some.begin, seen.begin), std::max(some.end, seen.end)};
    }
    const Sight mirrored = sight.mirrored();
    for (int64_t r = 0; r < keys; ++r) {
      of_keys.set(r, part_of_block(mirrored.keys_of(j + r), i, queries));
    }
  }
  Chains by_query() const {
    return masked ? Chains{of_queries.begin, of_queries.end} : Chains::of_length(keys);
  }
  Chains by_key() const {
    return masked ? Chains{of_keys.begin, of_keys.end} : Chains::of_length(queries);
  }
};

/// Capped scores in place of a pair's dot products, and their slopes.
inline void cap_pair(const BackwardCall& call, const BackwardBlocks& blocks, const Pair& pair,
                     Range columns) {
  const FloatTag d;
  const ScoreRule& rule = call.common.rule;
  const FloatVec inner = hn::Set(d, rule.inner), cap = hn::Set(d, rule.softcap);
  const FloatVec scale = hn::Set(d, rule.scale), one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < pair.queries; ++r) {
    float* s = blocks.p_IJ + r * kKeyBlock;
    float* slope = blocks.slope_IJ + r * kKeyBlock;
    for (int64_t j = columns.begin; j < columns.end; j += kFloatLanes) {
      const FloatVec t = elementary::tanh<SimdOps>(hn::Mul(load(s + j), inner));
      store(hn::Mul(t, cap), s + j);
      store(hn::Mul(scale, hn::NegMulAdd(t, t, one)), slope + j);
    }
  }
}

/// Scores with biases in place of a pair's dot products.
inline void bias_pair(const BackwardCall& call, const BackwardBlocks& blocks, const Pair& pair) {
  HWY_ALIGN float room[kKeyBlock];
  for (int64_t r = 0; r < pair.queries; ++r) {
    add_biases(blocks.p_IJ + r * kKeyBlock, pair.of_queries.begin[r], pair.of_queries.end[r],
               call.common.rule.scale,
               call.common.rule.bias.run(pair.head, pair.key - pair.query - r, kKeyBlock, room));
  }
}

/// p of the pair: exp(s - lse), or as stored; +0 from each row's end to its vector's.
inline void pair_probabilities(const BackwardCall& call, const SequencePlace& place,
                               const BackwardBlocks& blocks, const Pair& pair, Range columns) {
  const AttentionBackward& a = call.a;
  const FloatTag d;
  // Those of f16 are rounded: the same bits come of q, k and lse alone.
  const bool is_given = !a.probabilities.absent() && a.probabilities.dtype() == DType::f32;
  const bool capped = a.softcap > 0, biased = static_cast<bool>(call.common.rule.bias);
  const FloatVec scale = hn::Set(d, capped || biased ? 1.0f : a.scale);
  if (!is_given || capped) {
    product(Left{blocks.q_ID, call.layout.width, 1},
            Right<float>{blocks.keys_DJ + columns.begin, kKeyBlock},
            Result{blocks.p_IJ + columns.begin, kKeyBlock}, pair.queries, columns.size(),
            Chains::of_length(a.q_TND.head_size));
  }
  if (capped) cap_pair(call, blocks, pair, columns);
  if (biased && !is_given) bias_pair(call, blocks, pair);
  const float* lse = a.lse_NT.row<float>(pair.head) + place.query_row + pair.query;
  for (int64_t r = 0; r < pair.queries; ++r) {
    float* p = blocks.p_IJ + r * kKeyBlock;
    const int64_t row = pair.head * place.sight.queries + pair.query + r;
    const int64_t offset = place.probabilities + row * place.sight.keys + pair.key;
    const FloatVec shift = hn::Set(d, lse[r]);
    const int32_t end = pair.of_queries.end[r];
    for (int64_t j = block_start(pair.of_queries.begin[r], kFloatLanes); j < end;
         j += kFloatLanes) {
      const int64_t left = end - j;
      FloatVec value;
      if (!is_given) {
        value = elementary::exp<SimdOps>(hn::Sub(hn::Mul(load(p + j), scale), shift));
        if (left < kFloatLanes) {
          value = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(left)), value);
        }
      } else {
        const float* from = a.probabilities.as<float>() + offset + j;
        value = left < kFloatLanes ? load_some(from, left) : load(from);
      }
      store(value, p + j);
    }
  }
}

/// Adds a row of gradients, [begin, end) of a block of keys, to their diagonals: `first` is that of
/// the block's first key.
HWY_INLINE void add_to_diagonals(const float* g, int64_t begin, int64_t end, float* first) {
  int64_t j = begin;
  for (; j + kFloatLanes <= end; j += kFloatLanes)
    store(hn::Add(load(first + j), load(g + j)), first + j);
  if (j < end)
    store_some(hn::Add(load_some(first + j, end - j), load_some(g + j, end - j)), first + j,
               end - j);
}

/// ds = (p * (drop(dp) - delta)) * slope in place of dp, and the dropped p.
inline void pair_score_gradients(const BackwardCall& call, const SequencePlace& place,
                                 const BackwardBlocks& blocks, const Pair& pair) {
  const FloatTag d;
  const bool capped = call.a.softcap > 0;
  const FloatVec scale = hn::Set(d, capped || blocks.diagonals != nullptr ? 1.0f : call.a.scale);
  const float* delta = call.common.delta_NT.row<float>(pair.head) + place.query_row + pair.query;
  HWY_ALIGN float keep[kKeyBlock];
  for (int64_t r = 0; r < pair.queries; ++r) {
    const float* p = blocks.p_IJ + r * kKeyBlock;
    float* dropped = blocks.dropped_IJ + r * kKeyBlock;
    float* ds = blocks.ds_IJ + r * kKeyBlock;
    const FloatVec shift = hn::Set(d, delta[r]);
    if (place.dropout.on) {
      dropout_factors(place.dropout, pair.head, pair.query + r, pair.key, keep);
    }
    for (int64_t j = block_start(pair.of_queries.begin[r], kFloatLanes); j < pair.of_queries.end[r];
         j += kFloatLanes) {
      const FloatVec probability = load(p + j);
      FloatVec dp = load(ds + j);
      if (place.dropout.on) {
        const FloatVec factor = load(keep + j);
        const auto kept = hn::Ne(factor, hn::Zero(d));
        dp = hn::IfThenElseZero(kept, hn::Mul(dp, factor));
        store(hn::Mul(probability, factor), dropped + j);
      }
      store(hn::Mul(hn::Mul(probability, hn::Sub(dp, shift)), scale), ds + j);
    }
    for (int64_t j = 0; j < kKeyBlock && capped; j += kFloatLanes) {
      store(hn::Mul(load(ds + j), load(blocks.slope_IJ + r * kKeyBlock + j)), ds + j);
    }
    if (blocks.diagonals == nullptr) continue;
    add_to_diagonals(ds, pair.of_queries.begin[r], pair.of_queries.end[r],
                     blocks.diagonals + place.sight.queries - 1 - pair.query - r);
    for (int64_t j = 0; j < kKeyBlock; j += kFloatLanes)
      store(hn::Mul(load(ds + j), hn::Set(d, call.a.scale)), ds + j);
  }
}

/// Continues the chains of dk, dv (`first_queries`: starts them) and dq (at dq_ID) over one pair,
/// whose q, dy, keys and values are packed.
inline void backward_pair(const BackwardCall& call, const SequencePlace& place,
                          const BackwardBlocks& blocks, const Pair& pair, bool first_queries,
                          float* dq_ID) {
  const int64_t width = call.layout.width;
  const Range columns{block_start(pair.some.begin, kFloatLanes),
                      round_up(pair.some.end, kFloatLanes)};
  pair_probabilities(call, place, blocks, pair, columns);
  product(Left{blocks.dy_ID, width, 1}, Right<float>{blocks.values_DJ + columns.begin, kKeyBlock},
          Result{blocks.ds_IJ + columns.begin, kKeyBlock}, pair.queries, columns.size(),
          Chains::of_length(call.a.q_TND.head_size));
  pair_score_gradients(call, place, blocks, pair);
  const float* used = place.dropout.on ? blocks.dropped_IJ : blocks.p_IJ;
  if (call.pass != BackwardPass::queries) {
    const Start start = first_queries ? Start::zero : Start::carry;
    const Chains chains = pair.by_key();
    product(Left{used, 1, kKeyBlock}, Right<float>{blocks.dy_ID, width},
            Result{blocks.dv_JD, width, start}, pair.keys, width, chains);
    product(Left{blocks.ds_IJ, 1, kKeyBlock}, Right<float>{blocks.q_ID, width},
            Result{blocks.dk_JD, width, start}, pair.keys, width, chains);
  }
  if (call.pass != BackwardPass::keys) {
    product(Left{blocks.ds_IJ, kKeyBlock, 1}, Right<float>{blocks.keys_JD, width},
            Result{dq_ID, width, pair.first_keys ? Start::zero : Start::carry}, pair.queries, width,
            pair.by_query());
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
