// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024). Sources: LlamaConfig,
// modeling_llama.py and modeling_rope_utils.py of transformers 4 and 5.
#include "base/error.h"
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace llama_family {

constexpr auto kRows = joined(kModelRows, kSplitAttentionRows, kSplitMlpRows, kPreNormRows);

ModelSpec make(const Sizes& sizes, const std::string& where) {
  return rotary_stack("llama", sizes, gated_layer(layers::Activation::silu), where);
}

ModelSpec read(const ConfigKeys& keys) {
  keys.absent("sliding_window", "windows are");
  keys.only("rope_interleaved", false);
  if (const std::string name = keys.text("hidden_act", "silu"); name != "silu" && name != "swish")
    throw UserError("{}: hidden_act {} is not supported (silu, swish)", keys.where(),
                    ConfigKeys::shown(name));
  ModelSpec model = make(read_sizes(keys, {.layers = 32,
                                           .hidden = 4096,
                                           .heads = 32,
                                           .ffn = 11008,
                                           .context = 2048,
                                           .vocab = 32000}),
                         keys.where());
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_attention_bias(keys, model);
  const bool mlp_bias = keys.boolean("mlp_bias", false);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.mlp.bias = mlp_bias; });
  set_rope(read_rope(keys, {model.layers[0].attention.head_dim, model.context}), model);
  model.dropout = read_dropout(keys, {"attention_dropout"});
  read_ends(keys, false, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  require_even_heads(model);
  write_sizes(model, json);
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = layer.norm.eps;
  json["attention_bias"] = layer.attention.qkv_bias;
  json["mlp_bias"] = layer.mlp.bias;
  json["pretraining_tp"] = 1;
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace llama_family

const Family kLlama{"llama",
                    "LlamaForCausalLM",
                    "LlamaModel",
                    llama_family::make,
                    llama_family::read,
                    llama_family::write,
                    2,
                    {llama_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
