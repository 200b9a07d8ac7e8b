// SPDX-License-Identifier: Apache-2.0
// Backward's step: the five products of a 64-query and a 64-key block whose heads are packed.
// Included once per instruction set.

#if defined(MEGA_ATTENTION_BACKWARD_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
#undef MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
#else
#define MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
#endif

#include "kernels/attention/attention_pack-inl.h"
#include "kernels/attention/backward_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

struct BackwardBlocks {
  float *keys_JD, *keys_DJ, *values_JD, *values_DJ;
  float *q_ID, *dy_ID;
  float *dk_JD, *dv_JD;
  float *p_IJ, *dropped_IJ, *ds_IJ;
  float* dq_ID;

  BackwardBlocks(const BackwardScratch& layout, float* scratch) {
    const auto take = [&](int64_t floats) HWY_ATTR {
      float* part = scratch;
      scratch += floats;
      return part;
    };
    for (float** block :
         {&keys_JD, &keys_DJ, &values_JD, &values_DJ, &q_ID, &dy_ID, &dk_JD, &dv_JD}) {
      *block = take(layout.block());
    }
    for (float** square : {&p_IJ, &dropped_IJ, &ds_IJ}) *square = take(kKeyBlock * kKeyBlock);
    dq_ID = take(layout.dq_rows * layout.width);
  }
};

/// One sequence as the item sees it.
struct SequencePlace {
  int64_t row;
  int64_t length;
  int64_t probabilities;
  SequenceDropout dropout;

  SequencePlace(const AttentionBackward& a, int64_t sequence) : dropout(a.dropout, sequence) {
    const auto cu = a.sequences.cu_seqlens;
    row = cu[static_cast<size_t>(sequence)];
    length = cu[static_cast<size_t>(sequence) + 1] - row;
    probabilities = attention_probabilities_elements(cu.first(static_cast<size_t>(sequence) + 1),
                                                     a.q_TND.num_heads);
  }
};

/// Query rows [query, query + queries) of `head` against keys [key, key + keys).
struct Pair {
  int64_t head;
  int64_t query, queries;
  int64_t key, keys;
  bool masked;               // some query does not see some key
  int32_t limit[kKeyBlock];  // per query: keys of the block it attends to
  int32_t begin[kKeyBlock];  // per key: first query that attends to it
  int32_t end[kKeyBlock];

  Pair(int64_t h, int64_t i, int64_t j, int64_t length, bool causal)
      : head(h),
        query(i),
        queries(std::min(kKeyBlock, length - i)),
        key(j),
        keys(std::min(kKeyBlock, length - j)) {
    for (int64_t r = 0; r < kKeyBlock; ++r) {
      const int64_t seen = causal ? std::clamp<int64_t>(i + r + 1 - j, 0, keys) : keys;
      limit[r] = static_cast<int32_t>(seen);
      const int64_t first = causal ? std::clamp<int64_t>(j + r - i, 0, queries) : 0;
      begin[r] = static_cast<int32_t>(first);
      end[r] = static_cast<int32_t>(queries);
    }
    masked = causal && i < j + keys - 1;
  }
  Chains by_query() const { return masked ? Chains{nullptr, limit} : Chains::of_length(keys); }
  Chains by_key() const { return masked ? Chains{begin, end} : Chains::of_length(queries); }
};

/// p of the pair: exp(s * scale - lse), or as stored; +0 from each row's limit to its vector's end.
inline void pair_probabilities(const BackwardCall& call, const SequencePlace& place,
                               const BackwardBlocks& blocks, const Pair& pair, int64_t columns) {
  const AttentionBackward& a = call.a;
  const FloatTag d;
  const FloatVec scale = hn::Set(d, a.scale);
  if (a.probabilities.absent()) {
    product(Left{blocks.q_ID, call.layout.width, 1}, Right<float>{blocks.keys_DJ, kKeyBlock},
            Result{blocks.p_IJ, kKeyBlock}, pair.queries, columns,
            Chains::of_length(a.q_TND.head_size));
  }
  const float* lse = a.lse_NT.row<float>(pair.head) + place.row + pair.query;
  for (int64_t r = 0; r < pair.queries; ++r) {
    float* p = blocks.p_IJ + r * kKeyBlock;
    const int64_t offset =
        place.probabilities + (pair.head * place.length + pair.query + r) * place.length + pair.key;
    const FloatVec shift = hn::Set(d, lse[r]);
    for (int64_t j = 0; j < pair.limit[r]; j += kFloatLanes) {
      const int64_t left = pair.limit[r] - j;
      FloatVec value;
      if (a.probabilities.absent()) {
        value = elementary::exp<SimdOps>(hn::Sub(hn::Mul(load(p + j), scale), shift));
        if (left < kFloatLanes) {
          value = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(left)), value);
        }
      } else if (a.probabilities.dtype() == DType::bf16) {
        const bf16_t* from = a.probabilities.as<bf16_t>() + offset + j;
        value = left < kFloatLanes ? load_some(from, left) : load(from);
      } else {
        const float* from = a.probabilities.as<float>() + offset + j;
        value = left < kFloatLanes ? load_some(from, left) : load(from);
      }
      store(value, p + j);
    }
  }
}

/// ds = (p * (drop(dp) - delta)) * scale in place of dp, and the dropped p.
inline void pair_score_gradients(const BackwardCall& call, const SequencePlace& place,
                                 const BackwardBlocks& blocks, const Pair& pair) {
  const FloatTag d;
  const FloatVec scale = hn::Set(d, call.a.scale);
  const float* delta = call.delta_NT.row<float>(pair.head) + place.row + pair.query;
  HWY_ALIGN float keep[kKeyBlock];
  for (int64_t r = 0; r < pair.queries; ++r) {
    const float* p = blocks.p_IJ + r * kKeyBlock;
    float* dropped = blocks.dropped_IJ + r * kKeyBlock;
    float* ds = blocks.ds_IJ + r * kKeyBlock;
    const FloatVec shift = hn::Set(d, delta[r]);
    if (place.dropout.on) {
      dropout_factors(place.dropout, pair.head, pair.query + r, pair.key, keep);
    }
    for (int64_t j = 0; j < pair.limit[r]; j += kFloatLanes) {
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
  }
}

/// Continues the chains of dk, dv (`first_queries`: starts them) and dq (at dq_ID) over one pair,
/// whose q, dy, keys and values are packed.
inline void backward_pair(const BackwardCall& call, const SequencePlace& place,
                          const BackwardBlocks& blocks, const Pair& pair, bool first_queries,
                          float* dq_ID) {
  const int64_t width = call.layout.width;
  const int64_t columns =
      round_up<int64_t>(*std::max_element(pair.limit, pair.limit + pair.queries), kFloatLanes);
  pair_probabilities(call, place, blocks, pair, columns);
  product(Left{blocks.dy_ID, width, 1}, Right<float>{blocks.values_DJ, kKeyBlock},
          Result{blocks.ds_IJ, kKeyBlock}, pair.queries, columns,
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
            Result{dq_ID, width, pair.key == 0 ? Start::zero : Start::carry}, pair.queries, width,
            pair.by_query());
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BACKWARD_PAIR_INL_H_
