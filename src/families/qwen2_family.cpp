// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5 (Yang et al. 2024). Sources: Qwen2Config and modeling_qwen2.py of transformers 4
// and 5.
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace qwen2_family {

constexpr auto kRows = joined(kModelRows, kSplitAttentionRows, kSplitMlpRows, kPreNormRows);

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(layers::Activation::silu);
  layer.attention.qkv_bias = true;
  return rotary_stack("qwen2", sizes, layer, where);
}

ModelSpec read(const ConfigKeys& keys) {
  keys.only("use_mrope", false);
  ModelSpec model = make(read_sizes(keys, {.layers = 32,
                                           .hidden = 4096,
                                           .heads = 32,
                                           .kv_heads = 32,
                                           .ffn = 22016,
                                           .context = 32768,
                                           .vocab = 151936}),
                         keys.where());
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_activation(keys, "hidden_act", "silu", model);
  read_late_windows(keys, model);
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
  write_late_windows(model, json);
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace qwen2_family

const Family kQwen2{"qwen2",
                    "Qwen2ForCausalLM",
                    "Qwen2Model",
                    qwen2_family::make,
                    qwen2_family::read,
                    qwen2_family::write,
                    -1,
                    {qwen2_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
