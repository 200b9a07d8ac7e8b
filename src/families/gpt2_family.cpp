// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019) as transformers stores it: projections are [in, out] (Conv1D), c_attn
// holds q, k and v side by side. Sources: GPT2Config, modeling_gpt2.py.
#include "base/error.h"
#include "families/common_keys.h"

namespace megalith::models {
namespace gpt2_family {

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"transformer.wte.weight", Part::rows}}},
    {"position.weight", {{"transformer.wpe.weight", Part::rows}}},
    {"layers.*.norm_1.weight", {{"transformer.h.*.ln_1.weight", Part::rows}}},
    {"layers.*.norm_1.bias", {{"transformer.h.*.ln_1.bias", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"transformer.h.*.attn.c_attn.weight", Part::query},
      {"transformer.h.*.attn.c_attn.weight", Part::key},
      {"transformer.h.*.attn.c_attn.weight", Part::value}},
     true},
    {"layers.*.attention.qkv.bias",
     {{"transformer.h.*.attn.c_attn.bias", Part::query},
      {"transformer.h.*.attn.c_attn.bias", Part::key},
      {"transformer.h.*.attn.c_attn.bias", Part::value}}},
    {"layers.*.attention.output.weight",
     {{"transformer.h.*.attn.c_proj.weight", Part::rows}},
     true},
    {"layers.*.attention.output.bias", {{"transformer.h.*.attn.c_proj.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{"transformer.h.*.ln_2.weight", Part::rows}}},
    {"layers.*.norm_2.bias", {{"transformer.h.*.ln_2.bias", Part::rows}}},
    {"layers.*.mlp.up.weight", {{"transformer.h.*.mlp.c_fc.weight", Part::rows}}, true},
    {"layers.*.mlp.up.bias", {{"transformer.h.*.mlp.c_fc.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{"transformer.h.*.mlp.c_proj.weight", Part::rows}}, true},
    {"layers.*.mlp.down.bias", {{"transformer.h.*.mlp.c_proj.bias", Part::rows}}},
    {"final_norm.weight", {{"transformer.ln_f.weight", Part::rows}}},
    {"final_norm.bias", {{"transformer.ln_f.bias", Part::rows}}},
    {"head.weight", {{"lm_head.weight", Part::rows}}},
};
constexpr std::string_view kBuffers[] = {"transformer.h.*.attn.bias",
                                         "transformer.h.*.attn.masked_bias"};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  return uniform_stack(sizes, {}, where);
}

layers::Activation activation(const ConfigKeys& keys) {
  const std::string name = keys.text("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return layers::Activation::gelu_tanh;
  if (name == "gelu") return layers::Activation::gelu_erf;
  throw UserError(
      "{}: activation_function {} is not supported (gelu_new, gelu_pytorch_tanh, gelu_fast or "
      "gelu)",
      keys.where(), ConfigKeys::shown(name));
}

ModelSpec read(const ConfigKeys& keys) {
  keys.only("scale_attn_weights", true);
  keys.only("scale_attn_by_inverse_layer_idx", false);
  // A matter of where float16 is widened; the function is the same.
  keys.boolean("reorder_and_upcast_attn", false);
  ModelSpec model = make({.layers = keys.size({"n_layer", "num_hidden_layers"}, 12),
                          .hidden = keys.size({"n_embd", "hidden_size"}, 768),
                          .heads = keys.size({"n_head", "num_attention_heads"}, 12),
                          .ffn = keys.size({"n_inner"}, 0),
                          .context = keys.size({"n_positions", "max_position_embeddings"}, 1024),
                          .vocab = keys.size({"vocab_size"}, 50257)},
                         keys.where());
  const layers::Activation act = activation(keys);
  const double eps = keys.number("layer_norm_epsilon", 1e-5);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.mlp.activation = act;
    layer.norm.eps = eps;
  });
  model.final_norm.eps = eps;
  model.dropout = read_dropout(keys, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, 0.1);
  model.init_std = keys.number("initializer_range", 0.02);
  model.head.tied = keys.boolean("tie_word_embeddings", true);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  json["vocab_size"] = model.vocab;
  json["n_positions"] = model.context;
  json["n_embd"] = model.hidden;
  json["n_layer"] = model.num_layers();
  json["n_head"] = layer.attention.heads;
  json["n_inner"] = layer.mlp.ffn == 4 * model.hidden ? nlohmann::ordered_json()
                                                      : nlohmann::ordered_json(layer.mlp.ffn);
  json["activation_function"] =
      layer.mlp.activation == layers::Activation::gelu_erf ? "gelu" : "gelu_new";
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = model.dropout;
  json["layer_norm_epsilon"] = model.final_norm.eps;
  json["initializer_range"] = model.init_std;
  json["scale_attn_weights"] = true;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
}

}  // namespace gpt2_family

const Family kGpt2{"gpt2",
                   "GPT2LMHeadModel",
                   "GPT2Model",
                   gpt2_family::make,
                   gpt2_family::read,
                   gpt2_family::write,
                   50256,
                   {gpt2_family::kRows, gpt2_family::kBuffers, "transformer."}};

}  // namespace megalith::models
