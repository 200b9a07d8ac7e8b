// SPDX-License-Identifier: Apache-2.0
// Qwen 3, the dense models (Yang et al. 2025). Sources: Qwen3Config and modeling_qwen3.py of
// transformers 4 and 5.
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace qwen3_family {

constexpr auto kRows =
    joined(kModelRows, kSplitAttentionRows, kHeadNormRows, kSplitMlpRows, kPreNormRows);

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(layers::Activation::silu);
  layer.attention.qk_norm = layers::QkNorm::head;
  return rotary_stack("qwen3", sizes, layer, where);
}

ModelSpec read(const ConfigKeys& keys) {
  ModelSpec model = make(read_sizes(keys, {.layers = 32,
                                           .hidden = 4096,
                                           .heads = 32,
                                           .kv_heads = 32,
                                           .head_dim = 128,
                                           .ffn = 22016,
                                           .context = 32768,
                                           .vocab = 151936}),
                         keys.where());
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_activation(keys, "hidden_act", "silu", model);
  read_attention_bias(keys, model);
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
  json["attention_bias"] = layer.attention.qkv_bias;
  write_late_windows(model, json);
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace qwen3_family

const Family kQwen3{"qwen3",
                    "Qwen3ForCausalLM",
                    "Qwen3Model",
                    qwen3_family::make,
                    qwen3_family::read,
                    qwen3_family::write,
                    -1,
                    {qwen3_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
