// SPDX-License-Identifier: Apache-2.0
// Crammed BERT (Geiping & Goldstein 2023): an encoder for a day of training, norms before attention
// and MLP, sines and cosines times a learned scale, gated MLPs, no biases, logits of hidden tokens
// alone. Its config.json holds the settings of the program that trained it, under `arch`; fused
// queries, keys and values go head by head, of a gated MLP the gate is the second half. Sources:
// architectures/ and config/arch/crammed-bert.yaml of github.com/JonasGeiping/cramming.
#include <array>

#include "base/error.h"
#include "families/encoder_keys.h"

namespace megalith::models {
namespace crammed_family {

using layers::Activation;
using layers::PositionKind;
using nlohmann::ordered_json;

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"encoder.embedding.word_embedding.weight", Part::rows}}},
    {"position.scale", {{"encoder.embedding.pos_embedding.scale_factor", Part::rows}}},
    {"position.weight", {{"encoder.embedding.pos_embedding.embedding.weight", Part::rows}}},
    {"embedding.norm.weight", {{"encoder.embedding.norm.weight", Part::rows}}},
    {"embedding.norm.bias", {{"encoder.embedding.norm.bias", Part::rows}}},
    {"layers.*.norm_1.weight", {{"encoder.layers.*.norm1.weight", Part::rows}}},
    {"layers.*.norm_1.bias", {{"encoder.layers.*.norm1.bias", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"encoder.layers.*.attn.self_attention.query_key_value.weight", Part::rows}}},
    {"layers.*.attention.qkv.bias",
     {{"encoder.layers.*.attn.self_attention.query_key_value.bias", Part::rows}}},
    {"layers.*.attention.output.weight", {{"encoder.layers.*.attn.dense.weight", Part::rows}}},
    {"layers.*.attention.output.bias", {{"encoder.layers.*.attn.dense.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{"encoder.layers.*.norm2.weight", Part::rows}}},
    {"layers.*.norm_2.bias", {{"encoder.layers.*.norm2.bias", Part::rows}}},
    {"layers.*.mlp.gate_up.weight",
     {{"encoder.layers.*.ffn.dense_in.weight", Part::up},
      {"encoder.layers.*.ffn.dense_in.weight", Part::gate}}},
    {"layers.*.mlp.gate_up.bias",
     {{"encoder.layers.*.ffn.dense_in.bias", Part::up},
      {"encoder.layers.*.ffn.dense_in.bias", Part::gate}}},
    {"layers.*.mlp.up.weight", {{"encoder.layers.*.ffn.dense_in.weight", Part::rows}}},
    {"layers.*.mlp.up.bias", {{"encoder.layers.*.ffn.dense_in.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{"encoder.layers.*.ffn.dense_out.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"encoder.layers.*.ffn.dense_out.bias", Part::rows}}},
    {"final_norm.weight", {{"encoder.final_norm.weight", Part::rows}}},
    {"final_norm.bias", {{"encoder.final_norm.bias", Part::rows}}},
    {"head.transform.weight", {{"prediction_head.dense.weight", Part::rows}}},
    {"head.transform.bias", {{"prediction_head.dense.bias", Part::rows}}},
    {"head.transform_norm.weight", {{"prediction_head.norm.weight", Part::rows}}},
    {"head.transform_norm.bias", {{"prediction_head.norm.bias", Part::rows}}},
    {"head.weight", {{"decoder.weight", Part::rows}}},
    {"head.bias", {{"decoder.bias", Part::rows}}},
};
/// 1 / sqrt of the size of a head, and what positions are made of.
constexpr std::string_view kBuffers[] = {"encoder.layers.*.attn.self_attention.norm_factor",
                                         "encoder.embedding.pos_embedding.pe",
                                         "encoder.embedding.pos_embedding.position_ids"};

/// torch.nn's names; behind the gate of an MLP with "glu" at the end.
struct Nonlinearity {
  std::string_view name;
  Activation activation;
};
constexpr std::array kNonlinearities = {Nonlinearity{"GELU", Activation::gelu_erf},
                                        Nonlinearity{"ReLU", Activation::relu},
                                        Nonlinearity{"SiLU", Activation::silu}};
constexpr std::string_view kGated = "glu";

layers::NormSpec norm_of(double eps) { return {layers::NormKind::layer, eps, 0, true}; }

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(Activation::gelu_erf);
  layer.norm = norm_of(1e-5);
  layer.attention.causal = false;
  Sizes wanted = sizes;
  if (wanted.ffn == 0) wanted.ffn = 2 * wanted.hidden;
  ModelSpec model = uniform_stack(wanted, layer, where);
  model.family = "crammed";
  model.embedding.position = PositionKind::sinusoidal;
  model.embedding.norm = layer.norm;
  return model;
}

/// Refuses any other value of a key of `arch`.
void only_text(const ConfigKeys& keys, const char* name, const char* needed, const char* shown) {
  if (const std::string value = keys.text(name, needed); value != needed) {
    throw UserError("{}: {} {} is not supported ({})", keys.where(), shown,
                    ConfigKeys::shown(value), needed);
  }
}

layers::MlpSpec read_mlp(const ConfigKeys& arch) {
  const std::string name = arch.text("nonlin", "GELUglu");
  const int64_t width = arch.size({"intermed_size"}, 3072);
  layers::MlpSpec mlp;
  mlp.gated = name.ends_with(kGated);
  mlp.bias = arch.boolean("use_bias", false);
  const std::string_view plain =
      std::string_view(name).substr(0, name.size() - (mlp.gated ? kGated.size() : 0));
  for (const Nonlinearity& each : kNonlinearities) {
    if (each.name != plain) continue;
    mlp.activation = each.activation;
    if (mlp.gated && width % 2 != 0)
      throw UserError("{}: arch.intermed_size {} is odd, and {} halves it", arch.where(), width,
                      name);
    mlp.ffn = mlp.gated ? width / 2 : width;
    return mlp;
  }
  throw UserError(
      "{}: arch.nonlin {} is not supported (GELU, ReLU, SiLU, with glu behind them or not)",
      arch.where(), ConfigKeys::shown(name));
}

void read_embedding(const ConfigKeys& keys, int64_t hidden, ModelSpec& model) {
  if (const int64_t width = keys.size({"embedding_dim"}, hidden); width != hidden) {
    throw UserError("{}: arch.embedding.embedding_dim {} is not arch.hidden_size {}", keys.where(),
                    width, hidden);
  }
  const std::string kind = keys.text("pos_embedding", "");
  if (kind == "learned") {
    model.embedding.position = PositionKind::learned;
  } else if (kind.empty()) {
    model.embedding.position = PositionKind::none;
  } else if (kind != "scaled-sinusoidal") {
    throw UserError(
        "{}: arch.embedding.pos_embedding {} is not supported (scaled-sinusoidal, learned)",
        keys.where(), ConfigKeys::shown(kind));
  }
  if (!keys.boolean("normalization", true)) model.embedding.norm.reset();
  for (const char* unread : {"dropout_prob", "pad_token_id", "stable_low_precision"})
    keys.find(unread);
  keys.no_others("");
}

void read_attention(const ConfigKeys& keys, layers::AttentionSpec& attention) {
  only_text(keys, "type", "self-attention", "arch.attention.type");
  only_text(keys, "sequence_op", "torch-softmax", "arch.attention.sequence_op");
  for (const char* off : {"causal_attention", "skip_output_projection", "rotary_embedding"})
    keys.only(off, false);
  attention.qkv_bias = keys.boolean("qkv_bias", false);
  // How it runs: none changes what is computed.
  for (const char* unread :
       {"dropout_prob", "seq_op_in_fp32", "high_level_fusion", "low_level_fusion"})
    keys.find(unread);
  keys.no_others(" num_attention_heads ");
}

const nlohmann::json& section_of(const ConfigKeys& keys, const char* name, const char* shown) {
  const nlohmann::json* const section = keys.find(name);
  if (section == nullptr || !section->is_object())
    throw UserError("{}: {} must be an object", keys.where(), shown);
  return *section;
}

ModelSpec read_arch(const ConfigKeys& arch) {
  const ConfigKeys embedding(section_of(arch, "embedding", "arch.embedding"), arch.where(),
                             "arch.embedding.");
  const ConfigKeys attention(section_of(arch, "attention", "arch.attention"), arch.where(),
                             "arch.attention.");
  const layers::MlpSpec mlp = read_mlp(arch);
  ModelSpec model = make({.layers = arch.size({"num_transformer_layers"}, 16),
                          .hidden = arch.size({"hidden_size"}, 768),
                          .heads = attention.size({"num_attention_heads"}, 12),
                          .ffn = mlp.ffn,
                          .context = embedding.size({"max_seq_length"}, 128),
                          .vocab = embedding.size({"vocab_size"}, 32768)},
                         arch.where());
  only_text(arch, "norm", "LayerNorm", "arch.norm");
  only_text(arch, "norm_scheme", "pre", "arch.norm_scheme");
  only_text(arch, "objective_layout", "MLM", "arch.objective_layout");
  arch.only("tie_weights", true);
  arch.only("ffn_layer_frequency", 1.0);
  const layers::NormSpec norm = norm_of(arch.number("norm_eps", 1e-12));
  model.final_norm = norm;
  model.embedding.norm = norm;
  read_embedding(embedding, model.hidden, model);
  model.layers[0].norm = norm;
  model.layers[0].mlp = mlp;
  model.layers[0].attention.output_bias = mlp.bias;
  read_attention(attention, model.layers[0].attention);
  model.layers.assign(model.layers.size(), layers::LayerSpec(model.layers[0]));
  model.head.norm = arch.boolean("final_norm", true);
  model.head.bias = arch.boolean("decoder_bias", false);
  if (!arch.boolean("skip_head_transform", true))
    model.head.transform = layers::TransformSpec{mlp.bias, mlp.activation, norm};
  model.dropout = arch.number("hidden_dropout_prob", 0.1);
  if (arch.find("init") != nullptr) {
    const ConfigKeys init(section_of(arch, "init", "arch.init"), arch.where(), "arch.init.");
    model.init_std = init.number("std", 0.02);
  }
  // How it was trained and would be tuned.
  arch.no_others(" architectures sparse_prediction loss num_labels classification_head ");
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  ModelSpec model = read_arch(ConfigKeys(section_of(keys, "arch", "arch"), keys.where(), "arch."));
  read_head(keys, {kCrammed, false, false}, model);
  // Without a projection it says nothing.
  if (!keys.boolean("tie_word_embeddings", true) && model.head.tied)
    throw UserError("{}: tie_word_embeddings false is not supported", keys.where());
  return model;
}

std::string nonlinearity(const layers::MlpSpec& mlp) {
  for (const Nonlinearity& each : kNonlinearities) {
    if (each.activation == mlp.activation)
      return std::string(each.name) + std::string(mlp.gated ? kGated : "");
  }
  throw UserError("the class of family crammed has no activation {}",
                  name_of_activation(mlp.activation));
}

ordered_json embedding_json(const ModelSpec& model) {
  ordered_json json;
  json["vocab_size"] = model.vocab;
  json["pos_embedding"] = nullptr;
  if (model.embedding.position == PositionKind::learned) json["pos_embedding"] = "learned";
  if (model.embedding.position == PositionKind::sinusoidal)
    json["pos_embedding"] = "scaled-sinusoidal";
  json["dropout_prob"] = model.dropout;
  json["pad_token_id"] = 0;
  json["max_seq_length"] = model.context;
  json["embedding_dim"] = model.hidden;
  json["normalization"] = model.embedding.norm.has_value();
  json["stable_low_precision"] = false;
  return json;
}

ordered_json attention_json(const ModelSpec& model) {
  const layers::AttentionSpec& attention = model.layers.front().attention;
  ordered_json json;
  json["type"] = "self-attention";
  json["causal_attention"] = false;
  json["num_attention_heads"] = attention.heads;
  json["dropout_prob"] = model.dropout;
  json["skip_output_projection"] = false;
  json["qkv_bias"] = attention.qkv_bias;
  json["rotary_embedding"] = false;
  json["seq_op_in_fp32"] = false;
  json["sequence_op"] = "torch-softmax";
  return json;
}

void write(const ModelSpec& model, ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  ordered_json arch;
  arch["num_transformer_layers"] = model.num_layers();
  arch["hidden_size"] = model.hidden;
  arch["intermed_size"] = layer.mlp.up_width();
  arch["hidden_dropout_prob"] = model.dropout;
  arch["norm"] = "LayerNorm";
  arch["norm_eps"] = layer.norm.eps;
  arch["norm_scheme"] = "pre";
  arch["nonlin"] = nonlinearity(layer.mlp);
  arch["tie_weights"] = true;
  arch["decoder_bias"] = model.head.bias;
  arch["sparse_prediction"] = 0.25;
  arch["loss"] = "cross-entropy";
  arch["objective_layout"] = "MLM";
  arch["embedding"] = embedding_json(model);
  arch["attention"] = attention_json(model);
  arch["init"] = {{"type", "normal"}, {"std", model.init_std}};
  arch["ffn_layer_frequency"] = 1;
  arch["skip_head_transform"] = !model.head.transform.has_value();
  arch["use_bias"] = layer.mlp.bias;
  arch["final_norm"] = model.head.norm;
  arch["num_labels"] = nullptr;
  json["arch"] = arch;
}

}  // namespace crammed_family

const Family kCrammed{"crammed",
                      "ScriptableLMForPreTraining",
                      "ScriptableLM",
                      crammed_family::make,
                      crammed_family::read,
                      crammed_family::write,
                      -1,
                      {crammed_family::kRows, crammed_family::kBuffers, "encoder."},
                      {},
                      "crammedBERT"};

}  // namespace megalith::models
