// SPDX-License-Identifier: Apache-2.0
// Gemma (Gemma Team 2024). Sources: GemmaConfig and modeling_gemma.py of transformers 4 and 5.
#include "base/error.h"
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace gemma_family {

constexpr auto kRows = joined(kModelRows, kSplitAttentionRows, kSplitMlpRows, kPreNormRows);

ModelSpec make(const Sizes& sizes, const std::string& where) {
  return scaled_tied_stack("gemma", sizes, gated_layer(layers::Activation::gelu_tanh, 1), where);
}

/// The first files name the exact GELU and mean the other, as their class did.
void read_gelu(const ConfigKeys& keys, ModelSpec& model) {
  const auto named = [&](const char* key, layers::Activation usual) {
    if (keys.text(key, "gelu") == "gelu") return usual;
    read_activation(keys, key, "gelu", model);
    return model.layers.front().mlp.activation;
  };
  const layers::Activation act = named("hidden_act", layers::Activation::gelu_tanh);
  // Of releases that read either.
  if (keys.find("hidden_activation") != nullptr &&
      named("hidden_activation", layers::Activation::gelu_tanh) != act)
    throw UserError("{}: hidden_act and hidden_activation differ", keys.where());
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.mlp.activation = act; });
}

ModelSpec read(const ConfigKeys& keys) {
  keys.only("use_bidirectional_attention", false);
  ModelSpec model = make(read_sizes(keys, {.layers = 28,
                                           .hidden = 3072,
                                           .heads = 16,
                                           .kv_heads = 16,
                                           .head_dim = 256,
                                           .ffn = 24576,
                                           .context = 8192,
                                           .vocab = 256000}),
                         keys.where());
  read_gelu(keys, model);
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_attention_bias(keys, model);
  set_rope(read_rope(keys, {model.layers[0].attention.head_dim, model.context}), model);
  model.dropout = read_dropout(keys, {"attention_dropout"});
  read_ends(keys, true, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  write_sizes(model, json);
  for (const char* key : {"hidden_act", "hidden_activation"}) write_activation(model, key, json);
  json["rms_norm_eps"] = layer.norm.eps;
  json["attention_bias"] = layer.attention.qkv_bias;
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace gemma_family

const Family kGemma{"gemma",
                    "GemmaForCausalLM",
                    "GemmaModel",
                    gemma_family::make,
                    gemma_family::read,
                    gemma_family::write,
                    1,
                    {gemma_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
