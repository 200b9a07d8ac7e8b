// SPDX-License-Identifier: Apache-2.0
#include "families/families.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/integer.h"

namespace megalith::models {

std::span<const Family* const> families() {
  static constexpr const Family* kAll[] = {
      &kGpt2,       &kLlama,      &kGptNeox, &kMistral, &kQwen2,      &kQwen3, &kGemma,
      &kGemma2,     &kGemma3Text, &kPhi3,    &kOlmo2,   &kStarcoder2, &kBert,  &kRoberta,
      &kModernbert, &kAlbert,     &kT5,      &kMt5,     &kCrammed};
  return kAll;
}

bool is_encoder(const Family& family) { return !family.make({}, "family").is_causal(); }

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

const Family& family_named(std::string_view name, const std::string& where) {
  if (const Family* family = find_family(name)) return *family;
  std::vector<std::string_view> names;
  for (const Family* family : families()) names.push_back(family->name);
  throw UserError("{}: the family '{}' is not known; there are {}", where, name,
                  fmt::join(names, ", "));
}

ModelSpec uniform_stack(const Sizes& sizes, layers::LayerSpec layer, const std::string& where) {
  const auto need = [&](const char* name, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      throw UserError("{}: {} is {}, must be 1 to {}", where, name, value, most);
  };
  need("layers", sizes.layers, 100'000);
  need("hidden", sizes.hidden, 1 << 20);
  need("heads", sizes.heads, 1 << 16);
  if (sizes.head_dim == 0 && sizes.hidden % sizes.heads != 0) {
    throw UserError("{}: hidden {} is not a multiple of heads {}", where, sizes.hidden,
                    sizes.heads);
  }
  ModelSpec model;
  model.hidden = sizes.hidden;
  model.context = sizes.context;
  model.vocab = sizes.vocab;
  layer.attention.heads = sizes.heads;
  layer.attention.kv_heads = sizes.kv_heads != 0 ? sizes.kv_heads : sizes.heads;
  layer.attention.head_dim = sizes.head_dim != 0 ? sizes.head_dim : sizes.hidden / sizes.heads;
  const int64_t usual =
      layer.mlp.gated ? round_up(sizes.hidden * 8 / 3, int64_t{256}) : 4 * sizes.hidden;
  layer.mlp.ffn = sizes.ffn != 0 ? sizes.ffn : usual;
  model.final_norm = layer.norm;
  model.layers.assign(static_cast<size_t>(sizes.layers), layer);
  return model;
}

ModelSpec rotary_stack(std::string_view family, const Sizes& sizes, const layers::LayerSpec& layer,
                       const std::string& where) {
  ModelSpec model = uniform_stack(sizes, layer, where);
  model.family = family;
  model.embedding.position = layers::PositionKind::none;
  model.head.tied = false;
  model.for_each_layer(
      [](layers::LayerSpec& each) { each.attention.rope.dim = each.attention.head_dim; });
  return model;
}

ModelSpec scaled_tied_stack(std::string_view family, const Sizes& sizes,
                            const layers::LayerSpec& layer, const std::string& where) {
  ModelSpec model = rotary_stack(family, sizes, layer, where);
  model.embedding.scale = std::sqrt(static_cast<double>(model.hidden));
  model.head.tied = true;
  return model;
}

layers::LayerSpec gated_layer(layers::Activation activation, double norm_offset) {
  layers::LayerSpec layer;
  layer.norm = {layers::NormKind::rms, 1e-5, norm_offset, false};
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = false;
  layer.mlp.gated = true;
  layer.mlp.activation = activation;
  return layer;
}

}  // namespace megalith::models
