// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024). Sources: LlamaConfig,
// modeling_llama.py and modeling_rope_utils.py of transformers 4 and 5.
#include "base/error.h"
#include "models/families.h"
#include "models/rope_config.h"

namespace megalith::models {
namespace llama_family {

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"model.embed_tokens.weight", Part::rows}}},
    {"layers.*.norm_1.weight", {{"model.layers.*.input_layernorm.weight", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"model.layers.*.self_attn.q_proj.weight", Part::query},
      {"model.layers.*.self_attn.k_proj.weight", Part::key},
      {"model.layers.*.self_attn.v_proj.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"model.layers.*.self_attn.q_proj.bias", Part::query},
      {"model.layers.*.self_attn.k_proj.bias", Part::key},
      {"model.layers.*.self_attn.v_proj.bias", Part::value}}},
    {"layers.*.attention.output.weight", {{"model.layers.*.self_attn.o_proj.weight", Part::rows}}},
    {"layers.*.attention.output.bias", {{"model.layers.*.self_attn.o_proj.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{"model.layers.*.post_attention_layernorm.weight", Part::rows}}},
    {"layers.*.mlp.gate_up.weight",
     {{"model.layers.*.mlp.gate_proj.weight", Part::gate},
      {"model.layers.*.mlp.up_proj.weight", Part::up}}},
    {"layers.*.mlp.gate_up.bias",
     {{"model.layers.*.mlp.gate_proj.bias", Part::gate},
      {"model.layers.*.mlp.up_proj.bias", Part::up}}},
    {"layers.*.mlp.down.weight", {{"model.layers.*.mlp.down_proj.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"model.layers.*.mlp.down_proj.bias", Part::rows}}},
    {"final_norm.weight", {{"model.norm.weight", Part::rows}}},
    {"head.weight", {{"lm_head.weight", Part::rows}}},
};
constexpr std::string_view kBuffers[] = {"model.layers.*.self_attn.rotary_emb.inv_freq",
                                         "model.rotary_emb.inv_freq"};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer;
  layer.norm = {layers::NormKind::rms, 1e-5, 0, false};
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = false;
  layer.mlp.gated = true;
  layer.mlp.activation = layers::Activation::silu;
  ModelSpec model = uniform_stack(sizes, layer, where);
  model.family = "llama";
  model.embedding.position = layers::PositionKind::none;
  model.head.tied = false;
  model.for_each_layer(
      [](layers::LayerSpec& each) { each.attention.rope.dim = each.attention.head_dim; });
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  keys.only("partial_rotary_factor", 1.0);
  keys.absent("sliding_window", "windows are");
  keys.only("rope_interleaved", false);
  if (const std::string name = keys.text("hidden_act", "silu"); name != "silu" && name != "swish")
    throw UserError("{}: hidden_act {} is not supported (silu, swish)", keys.where(),
                    ConfigKeys::shown(name));
  ModelSpec model = make({.layers = keys.size({"num_hidden_layers"}, 32),
                          .hidden = keys.size({"hidden_size"}, 4096),
                          .heads = keys.size({"num_attention_heads"}, 32),
                          .kv_heads = keys.size({"num_key_value_heads"}, 0),
                          .head_dim = keys.size({"head_dim"}, 0),
                          .ffn = keys.size({"intermediate_size"}, 11008),
                          .context = keys.size({"max_position_embeddings"}, 2048),
                          .vocab = keys.size({"vocab_size"}, 32000)},
                         keys.where());
  const double eps = keys.number("rms_norm_eps", 1e-6);
  const bool attention_bias = keys.boolean("attention_bias", false);
  const bool mlp_bias = keys.boolean("mlp_bias", false);
  const layers::RopeSpec rope = read_rope(keys, model.layers[0].attention.head_dim, model.context);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.norm.eps = eps;
    layer.attention.qkv_bias = layer.attention.output_bias = attention_bias;
    layer.mlp.bias = mlp_bias;
    layer.attention.rope = rope;
  });
  model.final_norm.eps = eps;
  model.dropout = keys.number("attention_dropout", 0);
  model.init_std = keys.number("initializer_range", 0.02);
  model.head.tied = keys.boolean("tie_word_embeddings", false);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  const layers::AttentionSpec& a = layer.attention;
  if (model.hidden % a.heads != 0) {  // LlamaConfig wants it, although head_dim stands beside it
    throw UserError(
        "the llama format cannot express this model: hidden {}, not a multiple of heads {}",
        model.hidden, a.heads);
  }
  json["vocab_size"] = model.vocab;
  json["hidden_size"] = model.hidden;
  json["intermediate_size"] = layer.mlp.ffn;
  json["num_hidden_layers"] = model.num_layers();
  json["num_attention_heads"] = a.heads;
  json["num_key_value_heads"] = a.kv_heads;
  json["head_dim"] = a.head_dim;
  json["hidden_act"] = "silu";
  json["max_position_embeddings"] = model.context;
  json["initializer_range"] = model.init_std;
  json["rms_norm_eps"] = layer.norm.eps;
  json["attention_bias"] = a.qkv_bias;
  json["attention_dropout"] = model.dropout;
  json["mlp_bias"] = layer.mlp.bias;
  json["pretraining_tp"] = 1;
  write_rope(a.rope, model.context, json);
}

}  // namespace llama_family

const Family kLlama{"llama",
                    "LlamaForCausalLM",
                    "LlamaModel",
                    llama_family::make,
                    llama_family::read,
                    llama_family::write,
                    2,
                    {llama_family::kRows, llama_family::kBuffers, "model."}};

}  // namespace megalith::models
