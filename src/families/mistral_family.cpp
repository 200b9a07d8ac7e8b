// SPDX-License-Identifier: Apache-2.0
// Mistral (Jiang et al. 2023). Sources: MistralConfig and modeling_mistral.py of transformers 4 and
// 5.
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace mistral_family {

constexpr auto kRows = joined(kModelRows, kSplitAttentionRows, kSplitMlpRows, kPreNormRows);
constexpr int64_t kWindow = 4096;

void set_window(ModelSpec& model, int64_t window) {
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.window = window; });
}

ModelSpec make(const Sizes& sizes, const std::string& where) {
  ModelSpec model = rotary_stack("mistral", sizes, gated_layer(layers::Activation::silu), where);
  set_window(model, kWindow);
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  ModelSpec model = make(read_sizes(keys, {.layers = 32,
                                           .hidden = 4096,
                                           .heads = 32,
                                           .kv_heads = 8,
                                           .ffn = 14336,
                                           .context = 131072,
                                           .vocab = 32000}),
                         keys.where());
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_activation(keys, "hidden_act", "silu", model);
  set_window(model, read_window(keys, kWindow));
  set_rope(read_rope(keys, {model.layers[0].attention.head_dim, model.context}), model);
  model.dropout = read_dropout(keys, {"attention_dropout"});
  read_ends(keys, false, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  write_sizes(model, json);
  write_activation(model, "hidden_act", json);
  json["rms_norm_eps"] = layer.norm.eps;
  json["sliding_window"] = window_json(layer.attention.window);
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace mistral_family

const Family kMistral{"mistral",
                      "MistralForCausalLM",
                      "MistralModel",
                      mistral_family::make,
                      mistral_family::read,
                      mistral_family::write,
                      2,
                      {mistral_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
