// SPDX-License-Identifier: Apache-2.0
// ModernBERT (Warner et al. 2024): an encoder with norms before attention and MLP, rotary positions
// of two kinds, windows in two of three layers, gated MLPs. Sources: ModernBertConfig and
// modeling_modernbert.py of transformers 4 and 5.
#include "base/error.h"
#include "families/encoder_keys.h"
#include "families/rope_config.h"
#include "spec/head_types.h"

namespace megalith::models {
namespace modernbert_family {

using layers::HeadKind;

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"model.embeddings.tok_embeddings.weight", Part::rows}}},
    {"embedding.norm.weight", {{"model.embeddings.norm.weight", Part::rows}}},
    {"embedding.norm.bias", {{"model.embeddings.norm.bias", Part::rows}}},
    {"layers.*.norm_1.weight", {{"model.layers.*.attn_norm.weight", Part::rows}}},
    {"layers.*.norm_1.bias", {{"model.layers.*.attn_norm.bias", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"model.layers.*.attn.Wqkv.weight", Part::query},
      {"model.layers.*.attn.Wqkv.weight", Part::key},
      {"model.layers.*.attn.Wqkv.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"model.layers.*.attn.Wqkv.bias", Part::query},
      {"model.layers.*.attn.Wqkv.bias", Part::key},
      {"model.layers.*.attn.Wqkv.bias", Part::value}}},
    {"layers.*.attention.output.weight", {{"model.layers.*.attn.Wo.weight", Part::rows}}},
    {"layers.*.attention.output.bias", {{"model.layers.*.attn.Wo.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{"model.layers.*.mlp_norm.weight", Part::rows}}},
    {"layers.*.norm_2.bias", {{"model.layers.*.mlp_norm.bias", Part::rows}}},
    {"layers.*.mlp.gate_up.weight",
     {{"model.layers.*.mlp.Wi.weight", Part::gate}, {"model.layers.*.mlp.Wi.weight", Part::up}}},
    {"layers.*.mlp.gate_up.bias",
     {{"model.layers.*.mlp.Wi.bias", Part::gate}, {"model.layers.*.mlp.Wi.bias", Part::up}}},
    {"layers.*.mlp.down.weight", {{"model.layers.*.mlp.Wo.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"model.layers.*.mlp.Wo.bias", Part::rows}}},
    {"final_norm.weight", {{"model.final_norm.weight", Part::rows}}},
    {"final_norm.bias", {{"model.final_norm.bias", Part::rows}}},
    {"head.transform.weight", {{"head.dense.weight", Part::rows}}},
    {"head.transform.bias", {{"head.dense.bias", Part::rows}}},
    {"head.transform_norm.weight", {{"head.norm.weight", Part::rows}}},
    {"head.transform_norm.bias", {{"head.norm.bias", Part::rows}}},
    {"head.weight", {{"decoder.weight", Part::rows}}},
    {"head.bias", {{"decoder.bias", Part::rows}}},
    {"head.output.weight", {{"classifier.weight", Part::rows}}},
    {"head.output.bias", {{"classifier.bias", Part::rows}}},
};
constexpr HeadClass kOthers[] = {
    {"ModernBertForSequenceClassification", HeadKind::sequence_classification},
    {"ModernBertForSequenceClassification", HeadKind::sequence_regression},
    {"ModernBertForTokenClassification", HeadKind::token_classification},
    {"ModernBertForQuestionAnswering", HeadKind::question_answering},
};
constexpr RopePairKeys kRopes{.full = "global_rope_theta",
                              .usual_full = 160000,
                              .local = "local_rope_theta",
                              .usual_local = 10000};
constexpr int64_t kPattern = 3, kLocal = 128;

/// Keys to either side, of the whole number that the class has, and the token itself.
int64_t window_of_local(int64_t local) { return local / 2 + 1; }

ModelSpec make(const Sizes& sizes, const std::string& where) {
  layers::LayerSpec layer = gated_layer(layers::Activation::gelu_erf);
  layer.norm.kind = layers::NormKind::layer;
  layer.attention.causal = false;
  Sizes wanted = sizes;
  if (wanted.ffn == 0) wanted.ffn = wanted.hidden * 3 / 2;
  ModelSpec model = rotary_stack("modernbert", wanted, layer, where);
  model.layers[0].attention_norm = false;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    layers::AttentionSpec& a = model.layers[i].attention;
    a.rope.base = i % kPattern == 0 ? kRopes.usual_full : kRopes.usual_local;
    if (i % kPattern != 0) a.window = window_of_local(kLocal);
  }
  model.embedding.norm = layer.norm;
  model.head.tied = model.head.bias = true;
  model.head.transform = layers::TransformSpec{.bias = false, .norm = layer.norm};
  return model;
}

void read_layers(const ConfigKeys& keys, ModelSpec& model) {
  read_activation(keys, "hidden_activation", "gelu", model);
  const int64_t pattern = keys.size({"global_attn_every_n_layers"}, kPattern);
  const int64_t local = keys.size({"local_attention"}, kLocal);
  read_layer_types(
      keys, window_of_local(local), [&](int64_t layer) { return layer % pattern != 0; }, model);
  const RopePair ropes =
      read_rope_pair(keys, {model.layers[0].attention.head_dim, model.context}, kRopes);
  layers::NormSpec norm = model.final_norm;
  norm.eps = keys.number("norm_eps", 1e-5);
  norm.bias = keys.boolean("norm_bias", false);
  model.final_norm = norm;
  model.embedding.norm = model.head.transform->norm = norm;
  const bool attention_bias = keys.boolean("attention_bias", false);
  const bool mlp_bias = keys.boolean("mlp_bias", false);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.norm = norm;
    layer.attention.rope = layer.attention.window > 0 ? ropes.local : ropes.full;
    layer.attention.qkv_bias = layer.attention.output_bias = attention_bias;
    layer.mlp.bias = mlp_bias;
  });
}

void read_heads(const ConfigKeys& keys, ModelSpec& model) {
  layers::TransformSpec transform = *model.head.transform;
  transform.bias = keys.boolean("classifier_bias", false);
  transform.activation = activation_named(keys, "classifier_activation", "gelu");
  model.head.transform = transform;
  model.head.bias = keys.boolean("decoder_bias", true);
  const std::string pooling = keys.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") {
    throw UserError("{}: classifier_pooling {} is not supported (cls, mean)", keys.where(),
                    ConfigKeys::shown(pooling));
  }
  read_head(keys, {kModernbert, false, false}, model);
  if (model.head.outputs == 0) return;
  model.head.transform = transform;
  if (!layers::reads_each_token(model.head.kind) && pooling == "mean")
    model.head.pooling = layers::Pooling::mean;
}

ModelSpec read(const ConfigKeys& keys) {
  // How the class begins, runs and trains, and keys of BERT that it does not read.
  for (const char* unread :
       {"initializer_cutoff_factor", "deterministic_flash_attn", "sparse_prediction",
        "sparse_pred_ignore_index", "cls_token_id", "reference_compile", "repad_logits_with_grad",
        "layer_norm_eps", "position_embedding_type"})
    keys.find(unread);
  keys.only("is_decoder", false);
  ModelSpec model = make(
      read_encoder_sizes(
          keys,
          {.layers = 22, .hidden = 768, .heads = 12, .ffn = 1152, .context = 8192, .vocab = 50368}),
      keys.where());
  read_layers(keys, model);
  model.dropout = read_dropout(keys, {"mlp_dropout", "attention_dropout", "embedding_dropout"});
  read_ends(keys, true, model);
  read_heads(keys, model);
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
  write_activation(model, "hidden_activation", json);
  json["norm_eps"] = model.final_norm.eps;
  json["norm_bias"] = model.final_norm.bias;
  json["attention_bias"] = layer.attention.qkv_bias;
  json["mlp_bias"] = layer.mlp.bias;
  for (const char* key : {"mlp_dropout", "attention_dropout", "embedding_dropout"})
    json[key] = model.dropout;
  const int64_t window = window_of(model);
  json["local_attention"] = window > 0 ? 2 * (window - 1) : kLocal;
  json["layer_types"] = layer_types_json(model);
  RopePair ropes;
  ropes.full.base = kRopes.usual_full;
  ropes.local.base = kRopes.usual_local;
  for (const layers::LayerSpec& each : model.layers)
    (each.attention.window > 0 ? ropes.local : ropes.full) = each.attention.rope;
  write_rope_pair(ropes, {layer.attention.head_dim, model.context}, json, kRopes);
  json["decoder_bias"] = model.head.bias;
  if (model.head.transform) {
    json["classifier_bias"] = model.head.transform->bias;
    json["classifier_activation"] = name_of_activation(model.head.transform->activation);
  }
  json["classifier_pooling"] = model.head.pooling == layers::Pooling::mean ? "mean" : "cls";
  write_head(model, json);
}

}  // namespace modernbert_family

const Family kModernbert{"modernbert",
                         "ModernBertForMaskedLM",
                         "ModernBertModel",
                         modernbert_family::make,
                         modernbert_family::read,
                         modernbert_family::write,
                         50282,
                         {modernbert_family::kRows, {}, "model."},
                         modernbert_family::kOthers};

}  // namespace megalith::models
