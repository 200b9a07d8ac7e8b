// SPDX-License-Identifier: Apache-2.0
// Backward on the CPU, in pairs of a 64-query and a 64-key block. One pass over (sequence, group)
// items computes dq, dk and dv from five products per pair. Where that leaves threads idle, a pass
// over key blocks (four products) and one over query blocks (three) follow the same chains in the
// same order: the choice changes time, never bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_backward_cpu.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/elementary/dispatch.h"

#ifndef MEGA_ATTENTION_BACKWARD_PASS
#define MEGA_ATTENTION_BACKWARD_PASS
namespace megalith::kernels {
namespace {

using Pass = BackwardPass;

/// One thread's scratch, in floats.
struct BackwardScratch {
  int64_t width;
  int64_t dq_rows;
  BackwardScratch(const AttentionBackward& a, Pass pass)
      : width(padded_head_size(a.q_TND.head_size)),
        dq_rows(pass == Pass::keys ? 0
                : pass == Pass::queries
                    ? kKeyBlock
                    : a.q_TND.num_heads / a.k_TKD.num_heads *
                          round_up(longest(a.sequences.cu_seqlens), kKeyBlock)) {}
  int64_t block() const { return kKeyBlock * width; }
  int64_t floats() const { return 8 * block() + 3 * kKeyBlock * kKeyBlock + dq_rows * width; }
};

/// Everything a pass needs besides the item.
struct BackwardCall {
  const AttentionBackward& a;
  ConstView delta_NT;
  Pass pass;
  BackwardScratch layout;
};

}  // namespace
}  // namespace megalith::kernels
#endif  // MEGA_ATTENTION_BACKWARD_PASS

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

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
void pair_probabilities(const BackwardCall& call, const SequencePlace& place,
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
void pair_score_gradients(const BackwardCall& call, const SequencePlace& place,
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
void backward_pair(const BackwardCall& call, const SequencePlace& place,
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
  if (call.pass != Pass::queries) {
    const Start start = first_queries ? Start::zero : Start::carry;
    const Chains chains = pair.by_key();
    product(Left{used, 1, kKeyBlock}, Right<float>{blocks.dy_ID, width},
            Result{blocks.dv_JD, width, start}, pair.keys, width, chains);
    product(Left{blocks.ds_IJ, 1, kKeyBlock}, Right<float>{blocks.q_ID, width},
            Result{blocks.dk_JD, width, start}, pair.keys, width, chains);
  }
  if (call.pass != Pass::keys) {
    product(Left{blocks.ds_IJ, kKeyBlock, 1}, Right<float>{blocks.keys_JD, width},
            Result{dq_ID, width, pair.key == 0 ? Start::zero : Start::carry}, pair.queries, width,
            pair.by_query());
  }
}

void prefetch_queries(const BackwardCall& call, const SequencePlace& place, int64_t head,
                      int64_t query) {
  if (query >= place.length) return;
  const int64_t count = std::min(kKeyBlock, place.length - query);
  prefetch_rows(call.a.q_TND, place.row + query, head, count);
  prefetch_rows(call.a.dy_TND, place.row + query, head, count);
}
void pack_queries(const BackwardCall& call, const SequencePlace& place,
                  const BackwardBlocks& blocks, int64_t head, int64_t query) {
  const int64_t count = std::min(kKeyBlock, place.length - query);
  pack_rows(call.a.q_TND, place.row + query, head, count, call.layout.width, blocks.q_ID);
  pack_rows(call.a.dy_TND, place.row + query, head, count, call.layout.width, blocks.dy_ID);
}
void pack_keys(const BackwardCall& call, const SequencePlace& place, const BackwardBlocks& blocks,
               int64_t group, int64_t key) {
  const int64_t count = std::min(kKeyBlock, place.length - key);
  const int64_t width = call.layout.width, size = call.a.q_TND.head_size;
  pack_rows(call.a.k_TKD, place.row + key, group, count, width, blocks.keys_JD);
  transpose_block(blocks.keys_JD, count, size, width, blocks.keys_DJ);
  pack_rows(call.a.v_TKD, place.row + key, group, count, width, blocks.values_JD);
  transpose_block(blocks.values_JD, count, size, width, blocks.values_DJ);
}
/// Finished chains to the rows of a gradient; + 0 makes a negative zero positive.
void write_rows(float* from_RD, int64_t count, int64_t width, const HeadsView& to, int64_t row,
                int64_t head) {
  for (int64_t r = 0; r < count; ++r) {
    float* from = from_RD + r * width;
    if (r + 8 < count) prefetch_output(to, row + r + 8, head);
    for (int64_t c = 0; c < width; c += kFloatLanes) {
      store(hn::Add(load(from + c), hn::Zero(FloatTag())), from + c);
    }
    unpack_row(from, to, row + r, head);
  }
}

/// Key blocks of [item.begin, item.end), each against all query blocks of the group's heads.
void backward_keys(const BackwardCall& call, const AttentionItem& item, float* scratch) {
  const AttentionBackward& a = call.a;
  const SequencePlace place(a, item.sequence);
  const BackwardBlocks blocks(call.layout, scratch);
  const int64_t width = call.layout.width, q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t head_rows = round_up(place.length, kKeyBlock);
  for (int64_t key = item.begin; key < item.end; key += kKeyBlock) {
    pack_keys(call, place, blocks, item.group, key);
    bool first = true;
    for (int64_t h = 0; h < q_per_kv; ++h) {
      const int64_t head = item.group * q_per_kv + h;
      for (int64_t query = a.sequences.causal ? key : 0; query < place.length; query += kKeyBlock) {
        pack_queries(call, place, blocks, head, query);
        prefetch_queries(call, place, head, query + kKeyBlock);
        const Pair pair(head, query, key, place.length, a.sequences.causal);
        backward_pair(call, place, blocks, pair, first,
                      blocks.dq_ID + (h * head_rows + query) * width);
        first = false;
      }
    }
    const int64_t keys = std::min(kKeyBlock, place.length - key);
    write_rows(blocks.dk_JD, keys, width, a.dk_TKD, place.row + key, item.group);
    write_rows(blocks.dv_JD, keys, width, a.dv_TKD, place.row + key, item.group);
  }
  for (int64_t h = 0; h < q_per_kv && call.pass == Pass::all; ++h) {
    write_rows(blocks.dq_ID + h * head_rows * width, place.length, width, a.dq_TND, place.row,
               item.group * q_per_kv + h);
  }
}

/// One query block of one head against its key blocks.
void backward_queries(const BackwardCall& call, const AttentionItem& item, float* scratch) {
  const AttentionBackward& a = call.a;
  const SequencePlace place(a, item.sequence);
  const BackwardBlocks blocks(call.layout, scratch);
  pack_queries(call, place, blocks, item.head, item.begin);
  const int64_t end = a.sequences.causal ? item.end : place.length;
  for (int64_t key = 0; key < end; key += kKeyBlock) {
    pack_keys(call, place, blocks, item.group, key);
    const Pair pair(item.head, item.begin, key, place.length, a.sequences.causal);
    backward_pair(call, place, blocks, pair, false, blocks.dq_ID);
  }
  write_rows(blocks.dq_ID, item.end - item.begin, call.layout.width, a.dq_TND,
             place.row + item.begin, item.head);
}

template <class T>
HWY_INLINE float row_dot(const std::byte* a, const std::byte* b, int64_t n) {
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  Vec16 sum = set16(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) sum = fma16(load16(x + i), load16(y + i), sum);
  if (i < n) sum = fma16(load16_some(x + i, n - i), load16_some(y + i, n - i), sum);
  return tree_sum16(sum);
}

}  // namespace

/// delta_NT of rows [begin, end).
void backward_deltas(const AttentionBackward& a, View delta_NT, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t head = 0; head < a.q_TND.num_heads; ++head) {
      const std::byte* dy = a.dy_TND.at(t, head);
      const std::byte* y = a.y_TND.at(t, head);
      const int64_t size = a.q_TND.head_size;
      delta_NT.row<float>(head)[t] =
          a.q_TND.dtype == DType::bf16 ? row_dot<bf16_t>(dy, y, size) : row_dot<float>(dy, y, size);
    }
  }
}

void run_backward_item(const BackwardCall& call, const AttentionItem& item, float* scratch) {
  if (call.pass == Pass::queries) {
    backward_queries(call, item, scratch);
  } else {
    backward_keys(call, item, scratch);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

void run_pass(Exec& exec, const AttentionBackward& a, ConstView delta_NT, Pass pass,
              std::span<const AttentionItem> items) {
  const BackwardCall call{a, delta_NT, pass, BackwardScratch(a, pass)};
  run_items(exec, items, call.layout.floats(), [&](const AttentionItem& item, float* scratch) {
    MEGA_CALL_SIMD(exec, attention::run_backward_item, call, item, scratch);
  });
}

}  // namespace

void attention_deltas(Exec& exec, const AttentionBackward& a, View delta_NT) {
  if (exec.device.is_trace()) return;
  exec.device.pool().for_range(a.q_TND.num_rows, 16, [&](Range part, int) {
    MEGA_CALL_SIMD(exec, attention::backward_deltas, a, delta_NT, part.begin, part.end);
  });
}

void attention_backward_blocks(Exec& exec, const AttentionBackward& a) {
  const int64_t num_rows = a.q_TND.num_rows;
  if (num_rows == 0) return;
  const device::Tensor delta_NT =
      exec.workspace.tensor(DType::f32, Shape{a.q_TND.num_heads, num_rows});
  attention_deltas(exec, a, delta_NT.view);
  run_backward_passes(exec, a, kKeyBlock, [&](Pass pass, std::span<const AttentionItem> items) {
    run_pass(exec, a, delta_NT.view, pass, items);
  });
}

}  // namespace megalith::kernels
#endif
