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
  const int64_t chunks = q_per_kv * ((item.end - item.begin + kChunk - 1) / kChunk);
  const bool causal = a.sequences.causal;
  const ForwardBlocks blocks(layout, scratch);
  const SequenceDropout dropout(a.dropout, item.sequence);
  for (int64_t c = 0; c < chunks; ++c) {
    start_chunk(a.q_TND, chunk_of(layout, item, q_per_kv, blocks.chunks, c), row);
  }
  const int64_t known = causal ? item.end : length;
  for (int64_t first_key = 0; first_key < known; first_key += kForwardKeys) {
    const int64_t keys = std::min(kForwardKeys, known - first_key);
    pack_word_rows(a.k_TKD, row + first_key, item.group, keys, blocks.keys);
    pack_row_pairs(a.v_TKD, row + first_key, item.group, keys, layout.width, blocks.values);
    if (const int64_t next = first_key + kForwardKeys; next < known) {
      const int64_t count = std::min(kForwardKeys, known - next);
      prefetch_rows(a.k_TKD, row + next, item.group, count);
      prefetch_rows(a.v_TKD, row + next, item.group, count);
    }
    for (int64_t c = 0; c < chunks; ++c) {
      const Chunk chunk = chunk_of(layout, item, q_per_kv, blocks.chunks, c);
      const int64_t last = chunk.query + chunk.queries;
      const int64_t seen = causal ? std::min(keys, last - first_key) : keys;
      if (seen <= 0) continue;
      attend(a.scale, layout, blocks, {blocks.keys, layout.words, 1, kForwardKeys, 0}, chunk,
             {first_key, seen, causal && first_key + seen - 1 > chunk.query}, dropout);
    }
  }
  for (int64_t c = 0; c < chunks; ++c) {
    finish_chunk(a.y_TND, a.lse_NT, chunk_of(layout, item, q_per_kv, blocks.chunks, c), row);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3

#if HWY_ONCE
namespace megalith::kernels {

void attention_forward_bf16(Exec& exec, const AttentionForward& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  const Bf16ForwardScratch layout(a.q_TND.head_size, q_per_kv, step);
  const std::vector<AttentionItem> items = forward_items(a.sequences, a.k_TKD.num_heads, step);
  run_items(exec, items, layout.floats(), [&](const AttentionItem& item, float* scratch) {
    N_AVX3::attention::run_forward_bf16(a, layout, item, scratch);
  });
}

}  // namespace megalith::kernels
#endif
