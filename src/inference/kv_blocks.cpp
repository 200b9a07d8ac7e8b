// SPDX-License-Identifier: Apache-2.0
#include "inference/kv_blocks.h"

#include <algorithm>

#include "kernels/attention/kv_cache.h"

namespace megalith::inference {
namespace {

/// Ranks that share a head have it each.
int64_t kv_heads_here(int64_t kv_heads, int ranks) {
  return ranks > kv_heads ? 1 : exact_div<int64_t>(kv_heads, ranks);
}

size_t group_of(const std::vector<KvGroup>& groups, const KvGroup& group) {
  return static_cast<size_t>(std::ranges::find(groups, group) - groups.begin());
}

/// Calls `see(group, spec)` for what each decoder layer of a stage keeps.
void for_kept(const models::ModelSpec& spec, const models::Stage& stage,
              FunctionRef<void(const KvGroup&, const layers::AttentionSpec&)> see) {
  for (int64_t i = std::max(stage.begin, spec.encoder_layers); i < stage.end; ++i) {
    const layers::LayerSpec& layer = spec.layer(i);
    see({layer.attention.window, false}, layer.attention);
    if (layer.cross) see({0, true}, *layer.cross);
  }
}

kernels::KvCacheShape shape_of(const layers::AttentionSpec& attention, int tensor, DType dtype,
                               int64_t blocks) {
  return {dtype, kv_heads_here(attention.kv_heads, tensor), attention.head_dim, blocks};
}

DType cache_dtype(const engine::Settings& settings) {
  return settings.cache.value_or(settings.activations);
}

}  // namespace

std::vector<KvGroup> kv_groups(const models::ModelSpec& spec) {
  std::vector<KvGroup> groups;
  for_kept(spec, models::Stage::whole(spec),
           [&](const KvGroup& group, const layers::AttentionSpec&) {
             if (group_of(groups, group) == groups.size() && !group.is_memory)
               groups.push_back(group);
           });
  if (spec.is_encoder_decoder()) groups.push_back({0, true});
  return groups;
}

KvBlocks::KvBlocks(engine::ShardedModel& model, std::vector<int64_t> counts)
    : groups_(kv_groups(model.spec())), counts_(std::move(counts)), device_(model.device()) {
  MEGA_CHECK_EQ(counts_.size(), groups_.size());
  device::Arena& arena = device_.arena(device::MemoryClass::activations);
  for (const auto& model_chunk : model.chunks()) {
    Chunk& chunk = chunks_.emplace_back();
    for_kept(model.spec(), model_chunk->stage(),
             [&](const KvGroup& group, const layers::AttentionSpec& attention) {
               const size_t g = group_of(groups_, group);
               const kernels::KvCacheShape shape =
                   shape_of(attention, model.mesh().layout().tensor, cache_dtype(model.settings()),
                            counts_[g]);
               storage_.push_back(
                   {g, arena.tensor(shape.dtype, Shape{kernels::kv_cache_elements(shape)})});
               (group.is_memory ? chunk.memory : chunk.layers)
                   .push_back({shape, storage_.back().blocks, g});
             });
  }
}

int64_t KvBlocks::bytes(size_t group) const {
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks_)
    for (const auto* const kept : {&chunk.layers, &chunk.memory})
      for (const layers::CachedLayer& layer : *kept)
        if (layer.group == group) bytes += kernels::kv_cache_bytes(layer.shape);
  return bytes;
}

void KvBlocks::copy(size_t group, int64_t from, int64_t to) {
  for (const Storage& storage : storage_) {
    if (storage.group != group) continue;
    const View all = storage.blocks.view;
    const View blocks =
        all.reshape(Shape{counts_[group], exact_div(all.num_elements(), counts_[group])});
    device_.copy(blocks.rows(to, 1), blocks.rows(from, 1));
  }
}

}  // namespace megalith::inference
