// SPDX-License-Identifier: Apache-2.0
// T5 (Raffel et al. 2020), T5 1.1 and Flan, and mT5 (Xue et al. 2021). Sources: T5Config,
// MT5Config, modeling_t5.py and modeling_mt5.py of transformers 4 and 5.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "families/common_keys.h"

namespace megalith::models {
namespace t5_family {

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"shared.weight", Part::rows}}},
    {"encoder.relative_bias.weight",
     {{"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", Part::rows}}},
    {"encoder.layers.*.norm_1.weight", {{"encoder.block.*.layer.0.layer_norm.weight", Part::rows}}},
    {"encoder.layers.*.attention.qkv.weight",
     {{"encoder.block.*.layer.0.SelfAttention.q.weight", Part::query},
      {"encoder.block.*.layer.0.SelfAttention.k.weight", Part::key},
      {"encoder.block.*.layer.0.SelfAttention.v.weight", Part::value}}},
    {"encoder.layers.*.attention.output.weight",
     {{"encoder.block.*.layer.0.SelfAttention.o.weight", Part::rows}}},
    {"encoder.layers.*.norm_2.weight", {{"encoder.block.*.layer.1.layer_norm.weight", Part::rows}}},
    {"encoder.layers.*.mlp.up.weight",
     {{"encoder.block.*.layer.1.DenseReluDense.wi.weight", Part::rows}}},
    {"encoder.layers.*.mlp.gate_up.weight",
     {{"encoder.block.*.layer.1.DenseReluDense.wi_0.weight", Part::gate},
      {"encoder.block.*.layer.1.DenseReluDense.wi_1.weight", Part::up}}},
    {"encoder.layers.*.mlp.down.weight",
     {{"encoder.block.*.layer.1.DenseReluDense.wo.weight", Part::rows}}},
    {"encoder.final_norm.weight", {{"encoder.final_layer_norm.weight", Part::rows}}},
    {"relative_bias.weight",
     {{"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", Part::rows}}},
    {"layers.*.norm_1.weight", {{"decoder.block.*.layer.0.layer_norm.weight", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"decoder.block.*.layer.0.SelfAttention.q.weight", Part::query},
      {"decoder.block.*.layer.0.SelfAttention.k.weight", Part::key},
      {"decoder.block.*.layer.0.SelfAttention.v.weight", Part::value}}},
    {"layers.*.attention.output.weight",
     {{"decoder.block.*.layer.0.SelfAttention.o.weight", Part::rows}}},
    {"layers.*.norm_cross.weight", {{"decoder.block.*.layer.1.layer_norm.weight", Part::rows}}},
    {"layers.*.cross.q.weight", {{"decoder.block.*.layer.1.EncDecAttention.q.weight", Part::rows}}},
    {"layers.*.cross.kv.weight",
     {{"decoder.block.*.layer.1.EncDecAttention.k.weight", Part::cross_key},
      {"decoder.block.*.layer.1.EncDecAttention.v.weight", Part::cross_value}}},
    {"layers.*.cross.output.weight",
     {{"decoder.block.*.layer.1.EncDecAttention.o.weight", Part::rows}}},
    {"layers.*.norm_2.weight", {{"decoder.block.*.layer.2.layer_norm.weight", Part::rows}}},
    {"layers.*.mlp.up.weight", {{"decoder.block.*.layer.2.DenseReluDense.wi.weight", Part::rows}}},
    {"layers.*.mlp.gate_up.weight",
     {{"decoder.block.*.layer.2.DenseReluDense.wi_0.weight", Part::gate},
      {"decoder.block.*.layer.2.DenseReluDense.wi_1.weight", Part::up}}},
    {"layers.*.mlp.down.weight",
     {{"decoder.block.*.layer.2.DenseReluDense.wo.weight", Part::rows}}},
    {"final_norm.weight", {{"decoder.final_layer_norm.weight", Part::rows}}},
    {"head.weight", {{"lm_head.weight", Part::rows}}},
};
/// Of the first releases; no class reads it.
constexpr std::string_view kBuffers[] = {
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
/// Either stack has the table of tokens.
constexpr ForeignAlias kTwins[] = {{"shared.weight", "encoder.embed_tokens.weight"},
                                   {"shared.weight", "decoder.embed_tokens.weight"}};

/// Both stacks alike but for their direction, cross attention in the decoder's.
ModelSpec stacks(std::string_view family, const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer;
  layer.norm = {layers::NormKind::rms, 1e-5, 0, false};
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = false;
  layer.attention.scale = 1;
  layer.attention.relative = layers::RelativeSpec{};
  layer.attention.causal = false;
  layer.mlp.activation = layers::Activation::relu;
  ModelSpec model = uniform_stack(sizes, layer, where);
  const int64_t decoder_layers = sizes.decoder_layers > 0 ? sizes.decoder_layers : sizes.layers;
  if (decoder_layers > 100'000)
    throw UserError("{}: decoder_layers is {}, must be 1 to 100000", where, decoder_layers);
  layer = model.layers.front();
  layer.attention.causal = true;
  layer.cross = layer.attention;
  layer.cross->relative.reset();
  layer.cross->causal = false;
  model.encoder_layers = model.num_layers();
  model.layers.insert(model.layers.end(), static_cast<size_t>(decoder_layers), layer);
  model.family = family;
  model.embedding.position = layers::PositionKind::none;
  return model;
}

/// Of logits where the projection is the table of tokens.
double tied_scale(const ModelSpec& model) {
  return 1 / std::sqrt(static_cast<double>(model.hidden));
}

ModelSpec make(const Sizes& sizes, const std::string& where) {
  ModelSpec model = stacks("t5", sizes, where);
  model.head.scale = tied_scale(model);
  return model;
}

ModelSpec make_mt5(const Sizes& sizes, const std::string& where) {
  ModelSpec model = stacks("mt5", sizes, where);
  model.head.tied = false;
  model.for_each_layer([](layers::LayerSpec& layer) {
    layer.mlp.gated = true;
    layer.mlp.activation = layers::Activation::gelu_tanh;
  });
  return model;
}

constexpr std::string_view kGated = "gated-";

/// "relu", "gated-gelu" (its tanh form), "gated-silu".
void read_mlp(const ConfigKeys& keys, const char* usual, ModelSpec& model) {
  std::string text = keys.text("feed_forward_proj", usual);
  const bool gated = text.starts_with(kGated);
  if (gated) text.erase(0, kGated.size());
  if (gated && text == "gelu") text = "gelu_new";
  const layers::Activation activation = activation_of(keys, "feed_forward_proj", text);
  // What classes work out of it and write beside it.
  keys.only("is_gated_act", gated);
  if (const std::string derived = keys.text("dense_act_fn", text.c_str()); derived != text) {
    throw UserError("{}: dense_act_fn {} is not that of feed_forward_proj", keys.where(),
                    ConfigKeys::shown(derived));
  }
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.mlp.gated = gated;
    layer.mlp.activation = activation;
  });
}

std::string mlp_name(const layers::MlpSpec& mlp) {
  if (!mlp.gated) return std::string(name_of_activation(mlp.activation));
  if (mlp.activation == layers::Activation::gelu_tanh) return "gated-gelu";
  return std::string(kGated) + std::string(name_of_activation(mlp.activation));
}

/// The class is the whole model's; files of the first releases have its old name.
void require_class(const ConfigKeys& keys, const Family& family) {
  const nlohmann::json* const classes = keys.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty()) return;
  if (classes->front() == family.class_name) return;
  if (family.name == "t5" && classes->front() == "T5WithLMHeadModel") return;
  throw UserError("{}: architectures {} is not supported ({})", keys.where(),
                  ConfigKeys::shown(classes->front()), family.class_name);
}

ModelSpec read_stacks(const ConfigKeys& keys, const Family& family, const Sizes& usual,
                      const char* usual_mlp) {
  require_class(keys, family);
  const int64_t layers = keys.size({"num_layers", "num_hidden_layers"}, usual.layers);
  ModelSpec model =
      family.make({.layers = layers,
                   .decoder_layers = keys.size({"num_decoder_layers"}, layers),
                   .hidden = keys.size({"d_model", "hidden_size"}, usual.hidden),
                   .heads = keys.size({"num_heads", "num_attention_heads"}, usual.heads),
                   .head_dim = keys.size({"d_kv", "head_dim"}, 64),
                   .ffn = keys.size({"d_ff"}, usual.ffn),
                   .context = keys.size({"n_positions"}, 512),
                   .vocab = keys.size({"vocab_size"}, usual.vocab)},
                  keys.where());
  read_mlp(keys, usual_mlp, model);
  read_norm_eps(keys, "layer_norm_epsilon", 1e-6, model);
  const layers::RelativeSpec relative{keys.size({"relative_attention_num_buckets"}, 32),
                                      keys.size({"relative_attention_max_distance"}, 128)};
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.relative = relative; });
  model.dropout = keys.number("dropout_rate", 0.1);
  model.init_std = keys.number("initializer_range", model.init_std);
  keys.find("initializer_factor");  // of other initial weights
  model.decoder_start = keys.integer({"decoder_start_token_id"}, keys.integer({"pad_token_id"}, 0));
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  ModelSpec model = read_stacks(
      keys, kT5, {.layers = 6, .hidden = 512, .heads = 8, .ffn = 2048, .vocab = 32128}, "relu");
  // The class scales what a tied projection reads. Files of 1.1 and Flan have a projection apart.
  // Transformers 5 says that all are tied, and of the scale by a key of its own.
  model.head.tied = keys.boolean("tie_word_embeddings", true);
  if (!keys.boolean("scale_decoder_outputs", model.head.tied)) model.head.scale = 1;
  return model;
}

bool ties_unless_stored(const ConfigKeys& keys) {
  return keys.find("scale_decoder_outputs") != nullptr;
}

bool is_of_transformers_5(const ConfigKeys& keys) {
  const std::string version = keys.text("transformers_version", "5");
  return !version.starts_with("4.") && !version.starts_with("3.");
}

/// Transformers 4 scales what a tied projection reads, 5 has no scale and says that all are tied.
ModelSpec read_mt5(const ConfigKeys& keys) {
  ModelSpec model = read_stacks(
      keys, kMt5, {.layers = 8, .hidden = 512, .heads = 6, .ffn = 1024, .vocab = 250112},
      "gated-gelu");
  model.head.tied = keys.boolean("tie_word_embeddings", false);
  if (model.head.tied && !is_of_transformers_5(keys)) model.head.scale = tied_scale(model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  json["vocab_size"] = model.vocab;
  json["d_model"] = model.hidden;
  json["d_kv"] = layer.attention.head_dim;
  json["d_ff"] = layer.mlp.ffn;
  json["num_layers"] = model.encoder_layers;
  json["num_decoder_layers"] = model.num_layers() - model.encoder_layers;
  json["num_heads"] = layer.attention.heads;
  json["n_positions"] = model.context;
  if (layer.attention.relative) {
    json["relative_attention_num_buckets"] = layer.attention.relative->buckets;
    json["relative_attention_max_distance"] = layer.attention.relative->max_distance;
  }
  json["dropout_rate"] = model.dropout;
  json["layer_norm_epsilon"] = layer.norm.eps;
  json["initializer_range"] = model.init_std;
  json["feed_forward_proj"] = mlp_name(layer.mlp);
  json["is_encoder_decoder"] = true;
  json["decoder_start_token_id"] = model.decoder_start;
}

/// The scale follows from what is tied unless transformers 5 says otherwise.
void write_t5(const ModelSpec& model, nlohmann::ordered_json& json) {
  write(model, json);
  const bool scaled = model.head.scale != 1;
  if (scaled != model.head.tied) json["scale_decoder_outputs"] = scaled;
}

constexpr ForeignTable kTable{kRows, kBuffers, "", {}, {}, kTwins};

}  // namespace t5_family

const Family kT5{"t5",
                 "T5ForConditionalGeneration",
                 "T5Model",
                 t5_family::make,
                 t5_family::read,
                 t5_family::write_t5,
                 1,
                 t5_family::kTable,
                 {},
                 {},
                 t5_family::ties_unless_stored};
const Family kMt5{"mt5",
                  "MT5ForConditionalGeneration",
                  "MT5Model",
                  t5_family::make_mt5,
                  t5_family::read_mt5,
                  t5_family::write,
                  1,
                  t5_family::kTable,
                  {},
                  {},
                  t5_family::is_of_transformers_5};

}  // namespace megalith::models
