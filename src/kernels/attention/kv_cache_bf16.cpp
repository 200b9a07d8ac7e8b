// SPDX-License-Identifier: Apache-2.0
// Prompts over the KV cache in bf16 (attention_bf16.h): the code of training's forward, with keys
// and values packed from the cache's blocks. There keys lie transposed, so that neighbours in d are
// rows: packing keys is what packing values is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/kv_cache_bf16.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/bf16_forward-inl.h"
#include "kernels/attention/kv_cache_layout.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

static_assert(kForwardKeys % kKeyBlock == 0);

/// Positions [first_key, first_key + keys) of a sequence.
void pack_cached(const AttentionCached& a, const Bf16ForwardScratch& layout,
                 const AttentionItem& item, int64_t first_key, int64_t keys,
                 const ForwardBlocks& blocks) {
  for (int64_t j = 0; j < keys; j += kKeyBlock) {
    const bf16_t* from =
        a.cache.as<bf16_t>() +
        kv_block_offset(a.shape, kv_block(a.sequences, item.sequence, first_key + j), item.group);
    pack_row_pairs(from, kKeyBlock, layout.size, kKeyBlock, kKeyBlock,
                   blocks.keys + j * layout.words);
    pack_row_pairs(from + kv_value_offset(a.shape, 0, 0), layout.width,
                   std::min(kKeyBlock, keys - j), layout.size, layout.width,
                   blocks.values + j / 2 * layout.width);
  }
}

}  // namespace

/// The item's rows are counted by their positions in the sequence.
void run_cached_bf16(const AttentionCached& a, const Bf16ForwardScratch& layout,
                     const AttentionItem& item, float* scratch) {
  const auto sequence = static_cast<size_t>(item.sequence);
  const int64_t row = a.sequences.cu_seqlens[sequence] - a.sequences.past[sequence];
  const int64_t q_per_kv = a.q_TND.num_heads / a.shape.num_kv_heads;
  const ForwardBlocks blocks(layout, scratch);
  walk_keys({a.q_TND,
             a.y_TND,
             View(),
             a.scale,
             q_per_kv,
             row,
             item.end,
             true,
             {blocks.keys, 1, kKeyBlock, kKeyBlock, layout.words * kKeyBlock}},
            layout, item, blocks, SequenceDropout(), [&](int64_t first_key, int64_t keys) HWY_ATTR {
              pack_cached(a, layout, item, first_key, keys, blocks);
            });
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_cached_bf16_scratch(const Exec& exec, const AttentionCached& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.shape.num_kv_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  return items_scratch_bytes(exec, Bf16ForwardScratch(a.shape.head_size, q_per_kv, step).floats());
}

void attention_cached_bf16(Exec& exec, const AttentionCached& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.shape.num_kv_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  const Bf16ForwardScratch layout(a.shape.head_size, q_per_kv, step);
  std::vector<AttentionItem> items;
  for (size_t s = 0; s < a.sequences.past.size(); ++s) {
    const int64_t past = a.sequences.past[s];
    const Sight sight = sight_of(a, static_cast<int64_t>(s));
    const int64_t end = sight.keys;
    for (int64_t group = 0; group < a.shape.num_kv_heads; ++group) {
      for (int64_t i = past; i < end; i += step) {
        const int64_t next = std::min(i + step, end);
        items.push_back({.sequence = static_cast<int64_t>(s),
                         .group = group,
                         .begin = i,
                         .end = next,
                         .cost = static_cast<double>(sight.pairs(i, next))});
      }
    }
  }
  run_items(exec, items, layout.floats(), exec.scratch,
            [&](const AttentionItem& item, float* scratch) {
              N_AVX3::attention::run_cached_bf16(a, layout, item, scratch);
            });
}

}  // namespace megalith::kernels
#endif
