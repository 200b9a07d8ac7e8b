// SPDX-License-Identifier: Apache-2.0
// Gemma 2 (Gemma Team 2024). Sources: Gemma2Config and modeling_gemma2.py of transformers 4 and 5.
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace gemma2_family {

constexpr auto kRows = joined(kModelRows, kSplitAttentionRows, kSplitMlpRows, kBothNormRows);
constexpr int64_t kWindow = 4096;
constexpr double kScoreCap = 50, kLogitCap = 30;

constexpr auto slides = [](int64_t layer) { return layer % 2 == 0; };

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(layers::Activation::gelu_tanh, 1);
  layer.norm_place = layers::NormPlace::both;
  layer.attention.softcap = kScoreCap;
  ModelSpec model = scaled_tied_stack("gemma2", sizes, layer, where);
  for (size_t i = 0; i < model.layers.size(); ++i)
    model.layers[i].attention.window = slides(static_cast<int64_t>(i)) ? kWindow : 0;
  model.head.softcap = kLogitCap;
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  keys.only("use_bidirectional_attention", false);
  keys.text("hidden_act", "");  // files have it, the class reads hidden_activation
  ModelSpec model = make(read_sizes(keys, {.layers = 26,
                                           .hidden = 2304,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_dim = 256,
                                           .ffn = 9216,
                                           .context = 8192,
                                           .vocab = 256000}),
                         keys.where());
  require_even_heads(model);
  read_activation(keys, "hidden_activation", "gelu_pytorch_tanh", model);
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_attention_bias(keys, model);
  read_score_scale(keys, 256, model);
  read_layer_types(keys, read_window(keys, kWindow), slides, model);
  const double score_cap = read_softcap(keys, "attn_logit_softcapping", kScoreCap);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.softcap = score_cap; });
  model.head.softcap = read_softcap(keys, "final_logit_softcapping", kLogitCap);
  set_rope(read_rope(keys, {model.layers[0].attention.head_dim, model.context}), model);
  model.dropout = read_dropout(keys, {"attention_dropout"});
  read_ends(keys, true, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  write_sizes(model, json);
  write_activation(model, "hidden_activation", json);
  json["rms_norm_eps"] = layer.norm.eps;
  json["attention_bias"] = layer.attention.qkv_bias;
  write_score_scale(model, json);
  write_layer_types(model, json);
  json["attn_logit_softcapping"] = softcap_json(layer.attention.softcap);
  json["final_logit_softcapping"] = softcap_json(model.head.softcap);
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json);
}

}  // namespace gemma2_family

const Family kGemma2{"gemma2",
                     "Gemma2ForCausalLM",
                     "Gemma2Model",
                     gemma2_family::make,
                     gemma2_family::read,
                     gemma2_family::write,
                     1,
                     {gemma2_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
