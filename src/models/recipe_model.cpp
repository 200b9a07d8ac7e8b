// SPDX-License-Identifier: Apache-2.0
#include "models/recipe_model.h"

#include "base/error.h"
#include "models/families.h"

namespace megalith::models {
namespace {

using config::ModelSection;
using layers::LayerSpec;

/// What a recipe calls a kernel's choice. Kernels know no recipe: the names are the same, and their
/// activations begin with one that no recipe has.
config::Norm named(layers::NormKind kind) { return static_cast<config::Norm>(kind); }
config::Activation named(layers::Activation activation) {
  return static_cast<config::Activation>(static_cast<int>(activation) - 1);
}

constexpr std::string_view kWhere = "recipe: model.family";

Sizes sizes_of(const ModelSection& m) {
  return {.layers = m.layers,
          .hidden = m.hidden,
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .head_dim = m.head_dim,
          .ffn = m.ffn,
          .context = m.context,
          .vocab = std::max<int64_t>(m.vocab, 1)};
}

/// longrope's is that of the contexts unless the recipe has another (attention_factor 1 is none).
double factor_of(const ModelSection& m, layers::RopeScaling scaling) {
  const config::RopeSection& r = m.rope;
  if (scaling != layers::RopeScaling::longrope || r.factor != 1 || r.original_context == 0)
    return r.factor;
  return static_cast<double>(m.context) / static_cast<double>(r.original_context);
}

void set_rope(const ModelSection& m, LayerSpec& layer) {
  layers::RopeSpec& rope = layer.attention.rope;
  using config::PositionKind;
  const auto familys = rope.dim > 0 ? PositionKind::rope : PositionKind::none;
  if (m.position.value_or(familys) != PositionKind::rope) {
    rope = {};
    return;
  }
  const config::RopeSection& r = m.rope;
  rope.dim = r.dim > 0 ? r.dim : layer.attention.head_dim;
  if (r.base > 0) rope.base = r.base;
  rope.scaling = r.scaling.value_or(rope.scaling);
  if (rope.scaling == layers::RopeScaling::none) return;
  rope.factor = factor_of(m, rope.scaling);
  rope.original_context = r.original_context;
  rope.low_frequency_factor = r.low_frequency_factor;
  rope.high_frequency_factor = r.high_frequency_factor;
  rope.beta_fast = r.beta_fast;
  rope.beta_slow = r.beta_slow;
  rope.attention_factor = r.attention_factor;
  rope.short_factors = r.short_factors;
  rope.long_factors = r.long_factors;
}

void set_layer(const ModelSection& m, LayerSpec& layer) {
  layer.norm.kind = static_cast<layers::NormKind>(m.norm.value_or(named(layer.norm.kind)));
  layer.norm_place = m.norm_place.value_or(layer.norm_place);
  if (!m.activation.is_familys()) {
    const config::Activation chosen = m.activation.value_or({});
    layer.mlp.activation = static_cast<layers::Activation>(static_cast<int>(chosen) + 1);
  }
  layer.attention.qk_norm = m.qk_norm.value_or(layer.attention.qk_norm);
  layer.mlp.gated = m.mlp.value_or(layer.mlp.gated ? config::Mlp::gated : config::Mlp::plain) ==
                    config::Mlp::gated;
  if (m.parallel_block) layer.parallel = *m.parallel_block;
  if (m.bias) layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = *m.bias;
  // Root-mean-square norms have none.
  layer.norm.bias = layer.norm.kind == layers::NormKind::layer && m.bias.value_or(true);
  if (m.window >= 0) layer.attention.window = m.window;
  layer.norm.eps = m.norm_eps;
  layer.attention.materialised = m.attention == config::Attention::materialised;
  set_rope(m, layer);
}

}  // namespace

ModelSpec model_of(const config::Recipe& recipe, int64_t vocab) {
  ModelSection m = recipe.model;
  if (m.vocab > 0 && vocab > m.vocab) {
    throw UserError(
        "recipe: model.vocab {} is smaller than the tokenizer's {}; set model.vocab to 0 or at "
        "least that",
        m.vocab, vocab);
  }
  if (m.vocab == 0) m.vocab = vocab;
  if (m.vocab <= 0) {
    throw UserError(
        "recipe: model.vocab is not given and there is no data.tokenizer to take it from; set one "
        "of them");
  }
  ModelSpec model = family_named(m.family, std::string(kWhere)).make(sizes_of(m), "recipe");
  model.for_each_layer([&](LayerSpec& layer) { set_layer(m, layer); });
  model.final_norm = model.layers.front().norm;
  if (!m.position.is_familys()) {
    const bool learned = m.position == config::PositionKind::learned;
    model.embedding.position = learned ? layers::PositionKind::learned : layers::PositionKind::none;
  }
  if (m.tied) model.head.tied = *m.tied;
  model.dropout = m.dropout;
  model.init_std = m.init_std;
  model.check("recipe");
  return model;
}

std::string fingerprint_of(const config::Recipe& recipe) {
  config::Recipe complete_recipe = recipe, standard;
  complete(complete_recipe.model);
  complete(standard.model);
  return config::fingerprint(complete_recipe, standard);
}

void complete(ModelSection& m) {
  const Family& family = family_named(m.family, std::string(kWhere));
  // Impossible sizes are for the rules of the recipe to name.
  Sizes sizes;
  const bool possible = m.hidden > 0 && m.hidden <= (1 << 20) && m.heads > 0 &&
                        (m.head_dim > 0 || m.hidden % m.heads == 0);
  if (possible) {
    sizes.hidden = m.hidden;
    sizes.heads = m.heads;
    sizes.head_dim = m.head_dim;
  }
  const ModelSpec model = family.make(sizes, "recipe");
  const LayerSpec& layer = model.layers.front();
  if (m.ffn == 0 && possible) m.ffn = layer.mlp.ffn;
  if (!m.tied) m.tied = model.head.tied;
  m.norm = m.norm.value_or(named(layer.norm.kind));
  m.norm_place = m.norm_place.value_or(layer.norm_place);
  if (!m.parallel_block) m.parallel_block = layer.parallel;
  m.mlp = m.mlp.value_or(layer.mlp.gated ? config::Mlp::gated : config::Mlp::plain);
  m.activation = m.activation.value_or(named(layer.mlp.activation));
  if (!m.bias) m.bias = layer.mlp.bias;
  if (m.position.is_familys()) {
    m.position = layer.attention.rope.dim > 0 ? config::PositionKind::rope
                 : model.embedding.position == layers::PositionKind::learned
                     ? config::PositionKind::learned
                     : config::PositionKind::none;
  }
  if (m.rope.base == 0) m.rope.base = layer.attention.rope.base;
  m.rope.scaling = m.rope.scaling.value_or(layer.attention.rope.scaling);
  if (m.window < 0) m.window = layer.attention.window;
  m.qk_norm = m.qk_norm.value_or(layer.attention.qk_norm);
}

}  // namespace megalith::models
