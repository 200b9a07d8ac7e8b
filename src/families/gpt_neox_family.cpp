// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023). query_key_value goes head by
// head, query, key, value: our rows where every head has its own key. Sources: GPTNeoXConfig and
// modeling_gpt_neox.py of transformers 4 and 5.
#include <algorithm>

#include "base/error.h"
#include "families/common_keys.h"
#include "families/rope_config.h"

namespace megalith::models {
namespace gpt_neox_family {

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"gpt_neox.embed_in.weight", Part::rows}}},
    {"layers.*.norm_1.weight", {{"gpt_neox.layers.*.input_layernorm.weight", Part::rows}}},
    {"layers.*.norm_1.bias", {{"gpt_neox.layers.*.input_layernorm.bias", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"gpt_neox.layers.*.attention.query_key_value.weight", Part::rows}}},
    {"layers.*.attention.qkv.bias",
     {{"gpt_neox.layers.*.attention.query_key_value.bias", Part::rows}}},
    {"layers.*.attention.output.weight",
     {{"gpt_neox.layers.*.attention.dense.weight", Part::rows}}},
    {"layers.*.attention.output.bias", {{"gpt_neox.layers.*.attention.dense.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{"gpt_neox.layers.*.post_attention_layernorm.weight", Part::rows}}},
    {"layers.*.norm_2.bias", {{"gpt_neox.layers.*.post_attention_layernorm.bias", Part::rows}}},
    {"layers.*.mlp.up.weight", {{"gpt_neox.layers.*.mlp.dense_h_to_4h.weight", Part::rows}}},
    {"layers.*.mlp.up.bias", {{"gpt_neox.layers.*.mlp.dense_h_to_4h.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{"gpt_neox.layers.*.mlp.dense_4h_to_h.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"gpt_neox.layers.*.mlp.dense_4h_to_h.bias", Part::rows}}},
    {"final_norm.weight", {{"gpt_neox.final_layer_norm.weight", Part::rows}}},
    {"final_norm.bias", {{"gpt_neox.final_layer_norm.bias", Part::rows}}},
    {"head.weight", {{"embed_out.weight", Part::rows}}},
};
constexpr std::string_view kBuffers[] = {
    "gpt_neox.layers.*.attention.bias", "gpt_neox.layers.*.attention.masked_bias",
    "gpt_neox.layers.*.attention.rotary_emb.inv_freq", "gpt_neox.rotary_emb.inv_freq"};
// What the class itself calls it since transformers 5; its files keep the older name.
constexpr ForeignAlias kAliases[] = {{"embed_out.weight", "lm_head.weight"}};

constexpr double kFraction = 0.25;
constexpr RopeKeys kRope{
    .base = "rotary_emb_base", .fraction = "rotary_pct", .usual_fraction = kFraction};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer;
  layer.parallel = true;
  layer.mlp.activation = layers::Activation::gelu_erf;
  ModelSpec model = rotary_stack("gpt_neox", sizes, layer, where);
  model.for_each_layer([](layers::LayerSpec& each) {
    layers::AttentionSpec& a = each.attention;
    const int64_t quarter = static_cast<int64_t>(static_cast<double>(a.head_dim) * kFraction);
    a.rope.dim = std::max<int64_t>(quarter / 2 * 2, 2);
  });
  return model;
}

/// Some releases write both of two spellings; the class reads the older.
void require_same(const ConfigKeys& keys, const char* older, const char* newer, double usual) {
  if (keys.find(newer) == nullptr || keys.number(newer, 0) == keys.number(older, usual)) return;
  throw UserError("{}: {} and {} differ; they are one setting", keys.where(), older, newer);
}

ModelSpec read(const ConfigKeys& keys) {
  for (const char* unread : {"attention_probs_dropout_prob", "hidden_dropout_prob"})
    keys.number(unread, 0);
  require_same(keys, "rotary_emb_base", "rope_theta", kRope.usual_base);
  require_same(keys, "rotary_pct", "partial_rotary_factor", kRope.usual_fraction);
  ModelSpec model = make({.layers = keys.size({"num_hidden_layers"}, 44),
                          .hidden = keys.size({"hidden_size"}, 6144),
                          .heads = keys.size({"num_attention_heads"}, 64),
                          .ffn = keys.size({"intermediate_size"}, 24576),
                          .context = keys.size({"max_position_embeddings"}, 2048),
                          .vocab = keys.size({"vocab_size"}, 50432)},
                         keys.where());
  read_activation(keys, "hidden_act", "gelu", model);
  read_norm_eps(keys, "layer_norm_eps", 1e-5, model);
  const bool bias = keys.boolean("attention_bias", true);
  const bool parallel = keys.boolean("use_parallel_residual", true);
  const layers::RopeSpec rope =
      read_rope(keys, {model.layers[0].attention.head_dim, model.context}, kRope);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.parallel = parallel;
    layer.attention.qkv_bias = layer.attention.output_bias = bias;
    layer.attention.rope = rope;
  });
  model.dropout = read_dropout(keys, {"hidden_dropout", "attention_dropout"});
  read_ends(keys, false, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  json["vocab_size"] = model.vocab;
  json["hidden_size"] = model.hidden;
  json["intermediate_size"] = layer.mlp.ffn;
  json["num_hidden_layers"] = model.num_layers();
  json["num_attention_heads"] = layer.attention.heads;
  json["max_position_embeddings"] = model.context;
  json["initializer_range"] = model.init_std;
  write_activation(model, "hidden_act", json);
  json["layer_norm_eps"] = layer.norm.eps;
  for (const char* key : {"hidden_dropout", "attention_dropout"}) json[key] = model.dropout;
  json["attention_bias"] = layer.attention.qkv_bias;
  json["use_parallel_residual"] = layer.parallel;
  write_rope(layer.attention.rope, {layer.attention.head_dim, model.context}, json, kRope);
}

}  // namespace gpt_neox_family

const Family kGptNeox{
    "gpt_neox",
    "GPTNeoXForCausalLM",
    "GPTNeoXModel",
    gpt_neox_family::make,
    gpt_neox_family::read,
    gpt_neox_family::write,
    2,
    {gpt_neox_family::kRows, gpt_neox_family::kBuffers, "gpt_neox.", gpt_neox_family::kAliases}};

}  // namespace megalith::models
