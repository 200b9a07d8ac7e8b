// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <numeric>

#include "base/integer.h"
#include "base/subtree.h"
#include "spec/model_spec.h"

namespace megalith::models {

namespace {

/// What keeps `shards` from splitting these heads, in words; empty: nothing.
std::string heads_fault(const layers::AttentionSpec& a, int shards) {
  const int64_t kv_rows = 2 * a.kv_heads * a.head_dim;
  if (a.heads % shards != 0) return fmt::format("does not divide model.heads {}", a.heads);
  if (!shares_of_heads(shards, a.kv_heads))
    return fmt::format("and model.kv_heads {}: neither divides the other", a.kv_heads);
  if (kv_rows % shards != 0)
    return fmt::format("does not divide the {} rows of keys and values", kv_rows);
  if (a.qk_norm == layers::QkNorm::whole && a.kv_heads * a.head_dim % shards != 0) {
    return fmt::format("does not divide the {} weights of the norm over all keys",
                       a.kv_heads * a.head_dim);
  }
  return "";
}

}  // namespace

std::string split_fault(const ModelSpec& model, int shards, int ranks) {
  if (shards < 1 || ranks < 1) return "";
  const auto fault = [&](const std::string& what) {
    return fmt::format("parallel.tensor_shards {} {}; set {}", shards, what,
                       default_tensor_shards(model));
  };
  for (const layers::LayerSpec& layer : model.layers) {
    for (const layers::AttentionSpec* a :
         {&layer.attention, layer.cross ? &*layer.cross : nullptr}) {
      if (a == nullptr) continue;
      if (const std::string what = heads_fault(*a, shards); !what.empty()) return fault(what);
      if (!shares_of_heads(ranks, a->kv_heads)) {
        return fmt::format(
            "parallel.tensor {} and model.kv_heads {}: neither divides the other; set {}", ranks,
            a->kv_heads, std::gcd(ranks, a->kv_heads));
      }
    }
    if (layer.mlp.ffn % shards != 0)
      return fault(fmt::format("does not divide model.ffn {}", layer.mlp.ffn));
  }
  return "";
}

int default_tensor_shards(const ModelSpec& model) {
  int64_t shards = 8;
  for (const layers::LayerSpec& layer : model.layers) {
    shards = std::gcd(std::gcd(shards, layer.attention.heads), layer.attention.kv_heads);
    if (layer.cross) shards = std::gcd(std::gcd(shards, layer.cross->heads), layer.cross->kv_heads);
  }
  return static_cast<int>(shards);
}

}  // namespace megalith::models
