// SPDX-License-Identifier: Apache-2.0
#include "families/common_keys.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace megalith::models {
namespace {

using layers::Activation;
using nlohmann::ordered_json;

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
/// Of several names the first is written.
constexpr NamedActivation kActivations[] = {{"silu", Activation::silu},
                                            {"swish", Activation::silu},
                                            {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                            {"gelu_new", Activation::gelu_tanh},
                                            {"gelu_fast", Activation::gelu_tanh},
                                            {"gelu", Activation::gelu_erf},
                                            {"quick_gelu", Activation::gelu_quick},
                                            {"relu", Activation::relu}};

constexpr std::string_view kSliding = "sliding_attention", kFull = "full_attention";
constexpr int64_t kLargestWindow = 1 << 28;

}  // namespace

Sizes read_sizes(const ConfigKeys& keys, const Sizes& usual) {
  const bool as_heads = keys.is_null("num_key_value_heads");
  return {.layers = keys.size({"num_hidden_layers"}, usual.layers),
          .hidden = keys.size({"hidden_size"}, usual.hidden),
          .heads = keys.size({"num_attention_heads"}, usual.heads),
          .kv_heads = keys.size({"num_key_value_heads"}, as_heads ? 0 : usual.kv_heads),
          .head_dim = keys.size({"head_dim"}, usual.head_dim),
          .ffn = keys.size({"intermediate_size"}, usual.ffn),
          .context = keys.size({"max_position_embeddings"}, usual.context),
          .vocab = keys.size({"vocab_size"}, usual.vocab)};
}

void write_sizes(const ModelSpec& model, ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  json["vocab_size"] = model.vocab;
  json["hidden_size"] = model.hidden;
  json["intermediate_size"] = layer.mlp.ffn;
  json["num_hidden_layers"] = model.num_layers();
  json["num_attention_heads"] = layer.attention.heads;
  json["num_key_value_heads"] = layer.attention.kv_heads;
  json["head_dim"] = layer.attention.head_dim;
  json["max_position_embeddings"] = model.context;
  json["initializer_range"] = model.init_std;
  json["attention_dropout"] = model.dropout;
}

Activation activation_named(const ConfigKeys& keys, const char* name, const char* usual) {
  return activation_of(keys, name, keys.text(name, usual));
}

Activation activation_of(const ConfigKeys& keys, const char* name, const std::string& text) {
  const auto* const found = std::ranges::find(kActivations, text, &NamedActivation::name);
  if (found != std::end(kActivations)) return found->activation;
  std::string known;
  for (const NamedActivation& each : kActivations)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  throw UserError("{}: {} {} is not supported ({})", keys.where(), name, ConfigKeys::shown(text),
                  known);
}

std::string_view name_of_activation(Activation activation) {
  const auto* const found =
      std::ranges::find(kActivations, activation, &NamedActivation::activation);
  MEGA_CHECK(found != std::end(kActivations), "{} has no name", activation);
  return found->name;
}

void read_activation(const ConfigKeys& keys, const char* name, const char* usual,
                     ModelSpec& model) {
  const Activation activation = activation_named(keys, name, usual);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.mlp.activation = activation; });
}

void write_activation(const ModelSpec& model, const char* name, ordered_json& json) {
  json[name] = name_of_activation(model.layers.front().mlp.activation);
}

void read_norm_eps(const ConfigKeys& keys, const char* name, double usual, ModelSpec& model) {
  const double eps = keys.number(name, usual);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.norm.eps = eps; });
  model.final_norm.eps = eps;
}

double read_dropout(const ConfigKeys& keys, std::initializer_list<const char*> names,
                    double usual) {
  const double first = keys.number(*names.begin(), usual);
  for (const char* name : names) {
    if (keys.number(name, usual) == first) continue;
    log::warning(
        "{}: {} is {}, {} is {}; the first stands for all (reading and writing text is not "
        "affected)",
        keys.where(), *names.begin(), first, name, keys.number(name, usual));
  }
  return first;
}

void read_ends(const ConfigKeys& keys, bool usually_tied, ModelSpec& model) {
  model.init_std = keys.number("initializer_range", model.init_std);
  model.head.tied = keys.boolean("tie_word_embeddings", usually_tied);
}

void set_rope(const layers::RopeSpec& rope, ModelSpec& model) {
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.rope = rope; });
}

void read_attention_bias(const ConfigKeys& keys, ModelSpec& model) {
  const bool bias = keys.boolean("attention_bias", false);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.attention.qkv_bias = layer.attention.output_bias = bias;
  });
}

double read_softcap(const ConfigKeys& keys, const char* name, double usual) {
  if (keys.is_null(name)) return 0;
  const double softcap = keys.number(name, usual);
  const bool is_absent = keys.find(name) == nullptr;
  if (!is_absent && !(softcap > 0 && softcap <= 1e6))
    throw UserError("{}: {} is {}, must be above 0", keys.where(), name, softcap);
  return softcap;
}

ordered_json softcap_json(double softcap) {
  return softcap > 0 ? ordered_json(softcap) : ordered_json();
}

int64_t read_window(const ConfigKeys& keys, int64_t usual) {
  if (keys.is_null("sliding_window")) return 0;
  const int64_t window = keys.size({"sliding_window"}, usual);
  if (window > kLargestWindow)
    throw UserError("{}: sliding_window {} is too large", keys.where(), window);
  return window;
}

ordered_json window_json(int64_t window) {
  return window > 0 ? ordered_json(window) : ordered_json();
}

void read_layer_types(const ConfigKeys& keys, int64_t window, FunctionRef<bool(int64_t)> slides,
                      ModelSpec& model) {
  const std::vector<std::string> types = keys.texts("layer_types");
  if (!types.empty() && types.size() != model.layers.size()) {
    throw UserError("{}: layer_types has {} entries for {} layers", keys.where(), types.size(),
                    model.layers.size());
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    if (!types.empty() && types[i] != kSliding && types[i] != kFull) {
      throw UserError("{}: layer_types holds {}, which is not supported ({}, {})", keys.where(),
                      ConfigKeys::shown(types[i]), kFull, kSliding);
    }
    const bool is_sliding = types.empty() ? slides(static_cast<int64_t>(i)) : types[i] == kSliding;
    if (is_sliding && window == 0) {
      throw UserError("{}: layer_types makes layer {} slide, but there is no sliding_window",
                      keys.where(), i);
    }
    model.layers[i].attention.window = is_sliding ? window : 0;
  }
}

void write_layer_types(const ModelSpec& model, ordered_json& json) {
  json["sliding_window"] = window_json(window_of(model));
  json["layer_types"] = layer_types_json(model);
}

ordered_json layer_types_json(const ModelSpec& model) {
  ordered_json types = ordered_json::array();
  for (const layers::LayerSpec& layer : model.layers)
    types.push_back(layer.attention.window > 0 ? kSliding : kFull);
  return types;
}

int64_t window_of(const ModelSpec& model) {
  for (const layers::LayerSpec& layer : model.layers) {
    if (layer.attention.window > 0) return layer.attention.window;
  }
  return 0;
}

void read_late_windows(const ConfigKeys& keys, ModelSpec& model) {
  const bool used = keys.boolean("use_sliding_window", false);
  const int64_t given = read_window(keys, 4096), window = used ? given : 0;
  const int64_t first = keys.integer({"max_window_layers"}, 28);
  read_layer_types(
      keys, window, [&](int64_t layer) { return window > 0 && layer >= first; }, model);
}

void write_late_windows(const ModelSpec& model, ordered_json& json) {
  int64_t first = 0;
  while (first < model.num_layers() && model.layer(first).attention.window == 0) ++first;
  json["use_sliding_window"] = window_of(model) > 0;
  json["max_window_layers"] = first;
  write_layer_types(model, json);
}

void read_score_scale(const ConfigKeys& keys, int64_t usual, ModelSpec& model) {
  const double scalar = keys.number("query_pre_attn_scalar", static_cast<double>(usual));
  if (!(scalar > 0 && scalar <= 1e9))
    throw UserError("{}: query_pre_attn_scalar is {}, must be above 0", keys.where(), scalar);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    const bool is_plain = scalar == static_cast<double>(layer.attention.head_dim);
    layer.attention.scale = is_plain ? 0 : 1 / std::sqrt(scalar);
  });
}

void write_score_scale(const ModelSpec& model, ordered_json& json) {
  const layers::AttentionSpec& a = model.layers.front().attention;
  // The class takes whole numbers alone; another scale reads back as another model.
  json["query_pre_attn_scalar"] =
      a.scale > 0 ? std::llround(std::min(1 / (a.scale * a.scale), 1e9)) : a.head_dim;
}

void require_even_heads(const ModelSpec& model) {
  const int64_t heads = model.layers.front().attention.heads;
  if (model.hidden % heads == 0) return;
  throw UserError("the {} format cannot express this model: hidden {}, not a multiple of heads {}",
                  model.family, model.hidden, heads);
}

}  // namespace megalith::models
