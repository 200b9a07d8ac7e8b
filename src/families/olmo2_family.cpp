// SPDX-License-Identifier: Apache-2.0
// OLMo 2 (OLMo Team 2025). Sources: Olmo2Config and modeling_olmo2.py of transformers 4 and 5.
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace olmo2_family {

constexpr ForeignRow kNormRows[] = {
    {"layers.*.norm_1.weight", {{"model.layers.*.post_attention_layernorm.weight", Part::rows}}},
    {"layers.*.norm_2.weight", {{"model.layers.*.post_feedforward_layernorm.weight", Part::rows}}},
};
constexpr auto kRows =
    joined(kModelRows, kSplitAttentionRows, kHeadNormRows, kSplitMlpRows, kNormRows);

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(layers::Activation::silu);
  layer.norm_place = layers::NormPlace::output;
  layer.attention.qk_norm = layers::QkNorm::whole;
  return rotary_stack("olmo2", sizes, layer, where);
}

ModelSpec read(const ConfigKeys& keys) {
  ModelSpec model = make(read_sizes(keys, {.layers = 32,
                                           .hidden = 4096,
                                           .heads = 32,
                                           .ffn = 11008,
                                           .context = 2048,
                                           .vocab = 50304}),
                         keys.where());
  read_activation(keys, "hidden_act", "silu", model);
  read_norm_eps(keys, "rms_norm_eps", 1e-5, model);
  read_attention_bias(keys, model);
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
  json["attention_bias"] = layer.attention.qkv_bias;
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace olmo2_family

const Family kOlmo2{"olmo2",
                    "Olmo2ForCausalLM",
                    "Olmo2Model",
                    olmo2_family::make,
                    olmo2_family::read,
                    olmo2_family::write,
                    50279,
                    {olmo2_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
