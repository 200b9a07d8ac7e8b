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
#include "kernels/attention/backward_pair-inl.h"
#include "kernels/elementary/dispatch.h"
#include "kernels/reduction/tree_sum.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

void prefetch_queries(const BackwardCall& call, const SequencePlace& place, int64_t head,
                      int64_t query) {
  if (query >= place.sight.queries) return;
  const int64_t row = place.query_row + query;
  const int64_t count = std::min(kKeyBlock, place.sight.queries - query);
  prefetch_rows(call.a.q_TND, row, head, count);
  prefetch_rows(call.a.dy_TND, row, head, count);
}
void pack_queries(const BackwardCall& call, const SequencePlace& place,
                  const BackwardBlocks& blocks, int64_t head, int64_t query) {
  const int64_t row = place.query_row + query;
  const int64_t count = std::min(kKeyBlock, place.sight.queries - query);
  pack_rows(call.a.q_TND, row, head, count, call.layout.width, blocks.q_ID);
  pack_rows(call.a.dy_TND, row, head, count, call.layout.width, blocks.dy_ID);
}
void pack_keys(const BackwardCall& call, const SequencePlace& place, const BackwardBlocks& blocks,
               int64_t group, int64_t key) {
  const int64_t row = place.key_row + key;
  const int64_t count = std::min(kKeyBlock, place.sight.keys - key);
  const int64_t width = call.layout.width, size = call.a.q_TND.head_size;
  pack_rows(call.a.k_TKD, row, group, count, width, blocks.keys_JD);
  transpose_block(blocks.keys_JD, count, size, width, blocks.keys_DJ);
  pack_rows(call.a.v_TKD, row, group, count, width, blocks.values_JD);
  transpose_block(blocks.values_JD, count, size, width, blocks.values_DJ);
}

/// One key block, packed, and the runs [lo, hi) of the group's query heads: their dk and dv go to
/// the blocks' first partial, summed as the tree over runs.
void backward_runs(const BackwardCall& call, const SequencePlace& place,
                   const BackwardBlocks& blocks, const AttentionItem& item, int64_t key, int64_t lo,
                   int64_t hi) {
  const int64_t width = call.layout.width;
  if (hi - lo > 1) {
    const BackwardBlocks right = blocks.of_partial(call.layout, 1);
    backward_runs(call, place, blocks, item, key, lo, tree_middle(lo, hi));
    backward_runs(call, place, right, item, key, tree_middle(lo, hi), hi);
    for (int64_t i = 0; i < call.layout.block(); i += kFloatLanes) {
      store(hn::Add(load(blocks.dk_JD + i), load(right.dk_JD + i)), blocks.dk_JD + i);
      store(hn::Add(load(blocks.dv_JD + i), load(right.dv_JD + i)), blocks.dv_JD + i);
    }
    return;
  }
  const int64_t q_per_kv = call.a.q_TND.num_heads / call.a.k_TKD.num_heads;
  const int64_t run = q_per_kv / call.a.kv_partials;
  const int64_t head_rows = round_up(place.sight.queries, kKeyBlock);
  const int64_t end = std::min(key + kKeyBlock, place.sight.keys);
  const Range seen_by = place.sight.mirrored().keys_of(Range{key, end});
  bool first = true;
  for (int64_t h = lo * run; h < hi * run; ++h) {
    const int64_t head = item.group * q_per_kv + h;
    if (blocks.diagonals != nullptr) std::fill_n(blocks.diagonals, call.layout.diagonals, 0.0f);
    for (int64_t query = block_start(seen_by.begin); query < seen_by.end; query += kKeyBlock) {
      pack_queries(call, place, blocks, head, query);
      prefetch_queries(call, place, head, query + kKeyBlock);
      const Pair pair(head, query, key, place.sight);
      backward_pair(call, place, blocks, pair, first,
                    blocks.dq_ID + (h * head_rows + query) * width);
      first = false;
    }
    if (blocks.diagonals == nullptr) continue;
    const int64_t lowest = key - (place.sight.queries - 1);
    const BiasSums& sums = call.common.bias_sums;
    sums.fold(sums.first_block(item.sequence) + key / kKeyBlock, head, blocks.diagonals, 1, lowest,
              end - lowest);
  }
  if (!first) return;  // else no query sees them
  std::fill_n(blocks.dk_JD, call.layout.block(), 0.0f);
  std::fill_n(blocks.dv_JD, call.layout.block(), 0.0f);
}

/// Key blocks of [item.begin, item.end), each against the query blocks of the group's heads that
/// see some of it.
void backward_keys(const BackwardCall& call, const AttentionItem& item, float* scratch) {
  const AttentionBackward& a = call.a;
  const SequencePlace place(a, item.sequence);
  const BackwardBlocks blocks(call.layout, scratch);
  const int64_t width = call.layout.width, q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t head_rows = round_up(place.sight.queries, kKeyBlock);
  for (int64_t key = item.begin; key < item.end; key += kKeyBlock) {
    pack_keys(call, place, blocks, item.group, key);
    backward_runs(call, place, blocks, item, key, 0, a.kv_partials);
    const int64_t keys = std::min(kKeyBlock, place.sight.keys - key);
    write_rows(blocks.dk_JD, keys, width, a.dk_TKD, place.key_row + key, item.group);
    write_rows(blocks.dv_JD, keys, width, a.dv_TKD, place.key_row + key, item.group);
  }
  if (call.pass == BackwardPass::keys) return;
  if (place.sight.keys == 0) std::fill_n(blocks.dq_ID, q_per_kv * head_rows * width, 0.0f);
  for (int64_t h = 0; h < q_per_kv; ++h) {
    write_rows(blocks.dq_ID + h * head_rows * width, place.sight.queries, width, a.dq_TND,
               place.query_row, item.group * q_per_kv + h);
  }
}

/// One query block of one head against the key blocks that it sees.
void backward_queries(const BackwardCall& call, const AttentionItem& item, float* scratch) {
  const AttentionBackward& a = call.a;
  const SequencePlace place(a, item.sequence);
  const BackwardBlocks blocks(call.layout, scratch);
  pack_queries(call, place, blocks, item.head, item.begin);
  const Range seen = place.sight.keys_of(Range{item.begin, item.end});
  for (int64_t key = block_start(seen.begin); key < seen.end; key += kKeyBlock) {
    pack_keys(call, place, blocks, item.group, key);
    const Pair pair(item.head, item.begin, key, place.sight);
    backward_pair(call, place, blocks, pair, false, blocks.dq_ID);
  }
  if (seen.empty()) std::fill_n(blocks.dq_ID, kKeyBlock * call.layout.width, 0.0f);
  write_rows(blocks.dq_ID, item.end - item.begin, call.layout.width, a.dq_TND,
             place.query_row + item.begin, item.head);
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
      delta_NT.row<float>(head)[t] = a.q_TND.dtype == DType::f32    ? row_dot<float>(dy, y, size)
                                     : a.q_TND.dtype == DType::bf16 ? row_dot<bf16_t>(dy, y, size)
                                                                    : row_dot<f16_t>(dy, y, size);
    }
  }
}

void run_backward_item(const BackwardCall& call, const AttentionItem& item, float* scratch) {
  if (call.pass == BackwardPass::queries) {
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

void run_pass(Exec& exec, const AttentionBackward& a, const BackwardCommon& common,
              BackwardPass pass, std::span<const AttentionItem> items) {
  const BackwardCall call{a, common, pass, BackwardScratch(a, pass)};
  run_items(exec, items, call.layout.floats(), common.scratch,
            [&](const AttentionItem& item, float* scratch) {
              MEGA_CALL_SIMD(exec, attention::run_backward_item, call, item, scratch);
            });
}

}  // namespace

void attention_deltas(Exec& exec, const AttentionBackward& a, View delta_NT) {
  exec.device.pool().for_range(a.q_TND.num_rows, 16, [&](Range part, int) {
    MEGA_CALL_SIMD(exec, attention::backward_deltas, a, delta_NT, part.begin, part.end);
  });
}

int64_t attention_backward_scratch(const Exec& exec, const AttentionBackward& a) {
  return backward_scratch_bytes(exec, a, kKeyBlock,
                                [&](auto pass) { return BackwardScratch(a, pass).floats(); });
}

void attention_backward_blocks(Exec& exec, const AttentionBackward& a) {
  if (a.q_TND.num_rows == 0 && a.k_TKD.num_rows == 0) return;
  const BackwardCommon common(exec, a, kKeyBlock);
  run_backward_passes(exec, a, kKeyBlock,
                      [&](BackwardPass pass, std::span<const AttentionItem> items) {
                        run_pass(exec, a, common, pass, items);
                      });
  if (common.bias_sums) common.bias_sums.add_up(exec, a.dtable_BN);
}

}  // namespace megalith::kernels
#endif
