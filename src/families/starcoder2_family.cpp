// SPDX-License-Identifier: Apache-2.0
// StarCoder 2 (Lozhkov et al. 2024). Sources: Starcoder2Config and modeling_starcoder2.py of
// transformers 4 and 5.
#include "base/error.h"
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace starcoder2_family {

constexpr ForeignRow kOwnRows[] = {
    {"layers.*.norm_1.bias", {{"model.layers.*.input_layernorm.bias", Part::rows}}},
    {"layers.*.norm_2.bias", {{"model.layers.*.post_attention_layernorm.bias", Part::rows}}},
    {"layers.*.mlp.up.weight", {{"model.layers.*.mlp.c_fc.weight", Part::rows}}},
    {"layers.*.mlp.up.bias", {{"model.layers.*.mlp.c_fc.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{"model.layers.*.mlp.c_proj.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"model.layers.*.mlp.c_proj.bias", Part::rows}}},
    {"final_norm.bias", {{"model.norm.bias", Part::rows}}},
};
constexpr auto kRows = joined(kModelRows, kSplitAttentionRows, kPreNormRows, kOwnRows);

ModelSpec make(const Sizes& sizes, const std::string& where) {
  ModelSpec model = rotary_stack("starcoder2", sizes, {}, where);
  model.head.tied = true;
  model.init_std = 0.018042;
  return model;
}

/// What published files have and the class does not read, as far as it says what the class does.
void check_unread(const ConfigKeys& keys) {
  for (const auto& [key, needed] :
       {std::pair{"mlp_type", "default"}, std::pair{"norm_type", "layer_norm"}}) {
    if (const std::string value = keys.text(key, needed); value != needed) {
      throw UserError("{}: {} {} is not supported ({})", keys.where(), key,
                      ConfigKeys::shown(value), needed);
    }
  }
  keys.only("scale_attn_weights", true);
  keys.text("activation_function", "");
  keys.number("layer_norm_epsilon", 0);
  for (const char* width : {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"})
    keys.boolean(width, true);
}

ModelSpec read(const ConfigKeys& keys) {
  check_unread(keys);
  ModelSpec model = make(read_sizes(keys, {.layers = 30,
                                           .hidden = 3072,
                                           .heads = 24,
                                           .kv_heads = 2,
                                           .ffn = 12288,
                                           .context = 4096,
                                           .vocab = 49152}),
                         keys.where());
  read_activation(keys, "hidden_act", "gelu_pytorch_tanh", model);
  read_norm_eps(keys, "norm_epsilon", 1e-5, model);
  const bool bias = keys.boolean("use_bias", true);
  const int64_t window = read_window(keys, 0);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = bias;
    layer.attention.window = window;
  });
  set_rope(read_rope(keys, {model.layers[0].attention.head_dim, model.context}), model);
  model.dropout =
      read_dropout(keys, {"residual_dropout", "embedding_dropout", "attention_dropout"});
  read_ends(keys, true, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  write_sizes(model, json);
  write_activation(model, "hidden_act", json);
  json["norm_epsilon"] = layer.norm.eps;
  json["use_bias"] = layer.mlp.bias;
  for (const char* key : {"residual_dropout", "embedding_dropout"}) json[key] = model.dropout;
  json["sliding_window"] = window_json(layer.attention.window);
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace starcoder2_family

const Family kStarcoder2{"starcoder2",
                         "Starcoder2ForCausalLM",
                         "Starcoder2Model",
                         starcoder2_family::make,
                         starcoder2_family::read,
                         starcoder2_family::write,
                         50256,
                         {starcoder2_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
