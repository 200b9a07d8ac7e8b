// SPDX-License-Identifier: Apache-2.0
// The text model of Gemma 3 (Gemma Team 2025). Sources: Gemma3TextConfig and modeling_gemma3.py of
// transformers 4 and 5.
#include <algorithm>

#include "base/error.h"
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace gemma3_text_family {

constexpr auto kRows =
    joined(kModelRows, kSplitAttentionRows, kHeadNormRows, kSplitMlpRows, kBothNormRows);
constexpr int64_t kPattern = 6;  // the last of so many layers sees all
constexpr int64_t kWindow = 1024;
constexpr double kFullBase = 1e6;

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(layers::Activation::gelu_tanh, 1);
  layer.norm_place = layers::NormPlace::both;
  layer.attention.qk_norm = layers::QkNorm::head;
  ModelSpec model = scaled_tied_stack("gemma3_text", sizes, layer, where);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    layers::AttentionSpec& a = model.layers[i].attention;
    if (static_cast<int64_t>(i + 1) % kPattern == 0) {
      a.rope.base = kFullBase;
    } else {
      a.window = kWindow;
    }
  }
  return model;
}

/// sliding_window_pattern of files without layer_types.
void read_windows(const ConfigKeys& keys, ModelSpec& model) {
  const int64_t pattern = keys.size({"sliding_window_pattern"}, kPattern);
  keys.find("_sliding_window_pattern");  // written beside layer_types, and not read
  read_layer_types(
      keys, read_window(keys, 4096), [&](int64_t layer) { return (layer + 1) % pattern != 0; },
      model);
}

/// Releases before layer_types have the pattern alone; only if it says the same.
void write_windows(const ModelSpec& model, nlohmann::ordered_json& json) {
  write_layer_types(model, json);
  const auto full = std::ranges::find(
      model.layers, 0, [](const layers::LayerSpec& layer) { return layer.attention.window; });
  const int64_t pattern = full - model.layers.begin() + 1;
  for (int64_t i = 0; i < model.num_layers(); ++i) {
    if ((model.layer(i).attention.window > 0) != ((i + 1) % pattern != 0)) return;
  }
  json["sliding_window_pattern"] = pattern;
}

ModelSpec read(const ConfigKeys& keys) {
  keys.only("use_bidirectional_attention", false);
  keys.absent("attn_logit_softcapping", "caps of scores are");
  keys.text("hidden_act", "");  // the class reads hidden_activation
  ModelSpec model = make(read_sizes(keys, {.layers = 26,
                                           .hidden = 2304,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_dim = 256,
                                           .ffn = 9216,
                                           .context = 131072,
                                           .vocab = 262208}),
                         keys.where());
  require_even_heads(model);
  read_activation(keys, "hidden_activation", "gelu_pytorch_tanh", model);
  read_norm_eps(keys, "rms_norm_eps", 1e-6, model);
  read_attention_bias(keys, model);
  read_score_scale(keys, 256, model);
  read_windows(keys, model);
  model.head.softcap = read_softcap(keys, "final_logit_softcapping", 0);
  const RopePair ropes = read_rope_pair(keys, {model.layers[0].attention.head_dim, model.context});
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.attention.rope = layer.attention.window > 0 ? ropes.local : ropes.full;
  });
  model.dropout = read_dropout(keys, {"attention_dropout"});
  read_ends(keys, true, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::AttentionSpec& a = model.layers.front().attention;
  write_sizes(model, json);
  write_activation(model, "hidden_activation", json);
  json["rms_norm_eps"] = model.final_norm.eps;
  json["attention_bias"] = a.qkv_bias;
  write_score_scale(model, json);
  write_windows(model, json);
  json["attn_logit_softcapping"] = nullptr;
  json["final_logit_softcapping"] = softcap_json(model.head.softcap);
  json["use_bidirectional_attention"] = false;
  RopePair ropes;
  ropes.full.base = kFullBase;
  for (const layers::LayerSpec& layer : model.layers)
    (layer.attention.window > 0 ? ropes.local : ropes.full) = layer.attention.rope;
  write_rope_pair(ropes, {a.head_dim, model.context}, json);
}

}  // namespace gemma3_text_family

const Family kGemma3Text{"gemma3_text",
                         "Gemma3ForCausalLM",
                         "Gemma3TextModel",
                         gemma3_text_family::make,
                         gemma3_text_family::read,
                         gemma3_text_family::write,
                         1,
                         {gemma3_text_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models
