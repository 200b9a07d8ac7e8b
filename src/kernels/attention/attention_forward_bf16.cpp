// SPDX-License-Identifier: Apache-2.0
// Streaming forward in bf16 (attention_bf16.h): items of up to 768 query rows (all heads of a
// group), cut into chunks of 32 queries, walk over blocks of keys.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_forward_bf16.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/bf16_forward-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

void run_forward_bf16(const AttentionForward& a, const Bf16ForwardScratch& layout,
                      const AttentionItem& item, float* scratch) {
  const int64_t row = a.sequences.cu_seqlens[static_cast<size_t>(item.sequence)];
  const int64_t length = a.sequences.cu_seqlens[static_cast<size_t>(item.sequence) + 1] - row;
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t known = a.sequences.causal ? item.end : length;
  const ForwardBlocks blocks(layout, scratch);
  walk_keys({a.q_TND,
             a.y_TND,
             a.lse_NT,
             a.scale,
             q_per_kv,
             row,
             known,
             a.sequences.causal,
             {blocks.keys, layout.words, 1, kForwardKeys, 0}},
            layout, item, blocks, SequenceDropout(a.sequences, a.dropout, item.sequence),
            [&](int64_t first_key, int64_t keys) HWY_ATTR {
              pack_word_rows(a.k_TKD, row + first_key, item.group, keys, blocks.keys);
              pack_row_pairs(a.v_TKD, row + first_key, item.group, keys, layout.width,
                             blocks.values);
              const int64_t next = first_key + kForwardKeys;
              const int64_t count = std::min(kForwardKeys, known - next);
              if (count <= 0) return;
              prefetch_rows(a.k_TKD, row + next, item.group, count);
              prefetch_rows(a.v_TKD, row + next, item.group, count);
            });
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_forward_bf16_scratch(const Exec& exec, const AttentionForward& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  return items_scratch_bytes(exec, Bf16ForwardScratch(a.q_TND.head_size, q_per_kv, step).floats());
}

void attention_forward_bf16(Exec& exec, const AttentionForward& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  const Bf16ForwardScratch layout(a.q_TND.head_size, q_per_kv, step);
  const std::vector<AttentionItem> items = forward_items(a.sequences, a.k_TKD.num_heads, step);
  run_items(exec, items, layout.floats(), exec.scratch,
            [&](const AttentionItem& item, float* scratch) {
              N_AVX3::attention::run_forward_bf16(a, layout, item, scratch);
            });
}

}  // namespace megalith::kernels
#endif
