// SPDX-License-Identifier: Apache-2.0
#include "models/recipe_model.h"

#include <algorithm>

#include "base/error.h"
#include "families/families.h"

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
          .decoder_layers = m.decoder_layers,
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

/// What the recipe says of rotary positions; `familys`: but what layers of their own angles keep.
void set_positions(const ModelSection& m, bool familys_angles, LayerSpec& layer) {
  layers::RopeSpec& rope = layer.attention.rope;
  std::optional<layers::RelativeSpec>& relative = layer.attention.relative;
  using config::PositionKind;
  const auto familys = rope.dim > 0 ? PositionKind::rope
                       : relative   ? PositionKind::relative
                                    : PositionKind::none;
  const PositionKind position = m.position.value_or(familys);
  if (position != PositionKind::relative) {
    relative.reset();
  } else if (!relative) {
    relative = layers::RelativeSpec{};
  }
  if (position != PositionKind::rope) {
    rope = {};
    return;
  }
  const config::RopeSection& r = m.rope;
  if (r.dim > 0 || rope.dim == 0) rope.dim = r.dim > 0 ? r.dim : layer.attention.head_dim;
  if (familys_angles) return;
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

bool is_rotary(const LayerSpec& layer) { return layer.attention.rope.dim > 0; }

/// Where no layer turns, what a recipe says of angles would not be read. `familys`: what
/// `complete` fills in.
void require_no_angles(const ModelSection& m, const layers::RopeSpec& familys) {
  config::Recipe given, none;
  config::RopeSection& rope = given.model.rope = m.rope;
  if (rope.base == familys.base) rope.base = 0;
  if (rope.scaling.value_or(familys.scaling) == familys.scaling) rope.scaling = {};
  const auto unread = config::differences(none, given);
  if (unread.empty()) return;
  throw UserError("recipe: {} has no effect with model.position: {}; take it out of the recipe",
                  unread.front().path, settings::name_of(m.position));
}

/// What the recipe says of positions besides those in attention.
layers::PositionKind embedding_position(const ModelSection& m) {
  if (m.position == config::PositionKind::learned) return layers::PositionKind::learned;
  if (m.position == config::PositionKind::sinusoidal) return layers::PositionKind::sinusoidal;
  return layers::PositionKind::none;
}
config::PositionKind named(layers::PositionKind position, const layers::RopeSpec& rope) {
  if (rope.dim > 0) return config::PositionKind::rope;
  switch (position) {
    case layers::PositionKind::learned:
      return config::PositionKind::learned;
    case layers::PositionKind::sinusoidal:
      return config::PositionKind::sinusoidal;
    case layers::PositionKind::none:
      break;
  }
  return config::PositionKind::none;
}

bool has_window(const LayerSpec& layer) { return layer.attention.window > 0; }

/// The layer whose positions a recipe sets: the first without a window, if some have none.
const LayerSpec& leading(const ModelSpec& model) {
  const auto found = std::ranges::find_if_not(model.layers, has_window);
  return found == model.layers.end() ? model.layers.front() : *found;
}

/// In families whose layers differ, a window is that of the layers that have one. Without windows
/// all are as those without.
void set_windows(const ModelSection& m, ModelSpec& model) {
  if (m.window < 0) return;
  const bool mixed = std::ranges::any_of(model.layers, has_window) && !has_window(leading(model));
  const LayerSpec without = leading(model);
  for (LayerSpec& layer : model.layers) {
    if (m.window == 0 && mixed) layer = without;
    if (!mixed || has_window(layer)) layer.attention.window = m.window;
  }
}

void set_layer(const ModelSection& m, bool familys_angles, LayerSpec& layer) {
  layer.norm.kind = static_cast<layers::NormKind>(m.norm.value_or(named(layer.norm.kind)));
  layer.norm_place = m.norm_place.value_or(layer.norm_place);
  if (!m.activation.is_familys()) {
    const config::Activation chosen = m.activation.value_or({});
    layer.mlp.activation = static_cast<layers::Activation>(static_cast<int>(chosen) + 1);
  }
  layer.attention.qk_norm = m.qk_norm.value_or(layer.attention.qk_norm);
  if (layer.cross) layer.cross->qk_norm = m.qk_norm.value_or(layer.cross->qk_norm);
  layer.mlp.gated = m.mlp.value_or(layer.mlp.gated ? config::Mlp::gated : config::Mlp::plain) ==
                    config::Mlp::gated;
  if (m.parallel_block) layer.parallel = *m.parallel_block;
  if (m.bias) layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = *m.bias;
  if (m.bias && layer.cross) layer.cross->qkv_bias = layer.cross->output_bias = *m.bias;
  // Root-mean-square norms have none.
  layer.norm.bias = layer.norm.kind == layers::NormKind::layer && m.bias.value_or(true);
  layer.norm.eps = m.norm_eps;
  layer.set_materialised(m.attention == config::Attention::materialised);
  set_positions(m, familys_angles, layer);
}

/// Norms beside the layers are like theirs, and where the family has it so the activation.
void set_ends(const Family& family, ModelSpec& model) {
  const LayerSpec& layer = model.layers.front();
  model.final_norm = layer.norm;
  if (model.embedding.norm) model.embedding.norm = layer.norm;
  if (!model.head.transform) return;
  model.head.transform->norm = layer.norm;
  if (family.transform_as_layers) model.head.transform->activation = layer.mlp.activation;
}

/// The second stretch of a pair has the second type.
void ask_about_pairs(ModelSpec& model) {
  if (model.embedding.token_types < 2) {
    throw UserError(
        "recipe: train.sentence_pairs needs a model of two token types, as model.family bert and "
        "albert; {} has {}",
        model.family, model.embedding.token_types);
  }
  model.head.kind = layers::HeadKind::pretraining;
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
  const Family& family = family_named(m.family, std::string(kWhere));
  ModelSpec model = family.make(sizes_of(m), "recipe");
  set_windows(m, model);
  const layers::RopeSpec rope = leading(model).attention.rope;
  model.for_each_layer(
      [&](LayerSpec& layer) { set_layer(m, layer.attention.rope != rope, layer); });
  if (std::ranges::none_of(model.layers, is_rotary)) require_no_angles(m, rope);
  set_ends(family, model);
  if (!m.position.is_familys()) {
    model.embedding.position = embedding_position(m);
  }
  if (m.tied && *m.tied != model.head.tied) {
    model.head.tied = *m.tied;
    model.head.scale = 1;  // a family's is of what a tied table gives
  }
  if (!model.is_encoder_decoder() && (m.decoder_layers > 0 || m.decoder_start > 0)) {
    throw UserError(
        "recipe: model.decoder_layers and model.decoder_start are of encoder-decoders, and "
        "model.family {} has one stack of layers",
        m.family);
  }
  model.decoder_start = m.decoder_start;
  if (recipe.train.sentence_pairs != config::SentencePairs::none) ask_about_pairs(model);
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
  const layers::AttentionSpec& a = layer.attention;
  if (m.ffn == 0 && possible) m.ffn = layer.mlp.ffn;
  if (m.decoder_layers == 0 && model.is_encoder_decoder()) m.decoder_layers = m.layers;
  if (!m.tied) m.tied = model.head.tied;
  m.norm = m.norm.value_or(named(layer.norm.kind));
  m.norm_place = m.norm_place.value_or(layer.norm_place);
  if (!m.parallel_block) m.parallel_block = layer.parallel;
  m.mlp = m.mlp.value_or(layer.mlp.gated ? config::Mlp::gated : config::Mlp::plain);
  m.activation = m.activation.value_or(named(layer.mlp.activation));
  // What differs from place to place or from layer to layer has no one value to put here.
  const bool norm_agrees =
      layer.norm.kind != layers::NormKind::layer || layer.norm.bias == layer.mlp.bias;
  const bool one_bias = norm_agrees && a.qkv_bias == a.output_bias && a.qkv_bias == layer.mlp.bias;
  if (!m.bias && one_bias) m.bias = layer.mlp.bias;
  if (m.position.is_familys()) {
    m.position =
        a.relative ? config::PositionKind::relative : named(model.embedding.position, a.rope);
  }
  const auto all = [&](auto&& is_same) { return std::ranges::all_of(model.layers, is_same); };
  const bool one_base =
      all([&](const LayerSpec& other) { return other.attention.rope.base == a.rope.base; });
  if (m.rope.base == 0 && one_base) m.rope.base = a.rope.base;
  m.rope.scaling = m.rope.scaling.value_or(a.rope.scaling);
  const bool one_window =
      all([&](const LayerSpec& other) { return other.attention.window == a.window; });
  if (m.window < 0 && one_window) m.window = a.window;
  m.qk_norm = m.qk_norm.value_or(a.qk_norm);
}

}  // namespace megalith::models
