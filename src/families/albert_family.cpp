// SPDX-License-Identifier: Apache-2.0
// ALBERT (Lan et al. 2020). Sources: AlbertConfig and modeling_albert.py of transformers 4 and 5.
#include "base/error.h"
#include "families/encoder_keys.h"
#include "families/encoder_rows.h"

namespace megalith::models {
namespace albert_family {

using layers::HeadKind;

constexpr ForeignRow kOwnRows[] = {
    {"embedding.projection.weight",
     {{"albert.encoder.embedding_hidden_mapping_in.weight", Part::rows}}},
    {"embedding.projection.bias",
     {{"albert.encoder.embedding_hidden_mapping_in.bias", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.query.weight", Part::query},
      {"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.key.weight", Part::key},
      {"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.value.weight",
       Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.query.bias", Part::query},
      {"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.key.bias", Part::key},
      {"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.value.bias", Part::value}}},
    {"layers.*.attention.output.weight",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.dense.weight", Part::rows}}},
    {"layers.*.attention.output.bias",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.dense.bias", Part::rows}}},
    {"layers.*.norm_1.weight",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.LayerNorm.weight",
       Part::rows}}},
    {"layers.*.norm_1.bias",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.attention.LayerNorm.bias",
       Part::rows}}},
    {"layers.*.mlp.up.weight",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.ffn.weight", Part::rows}}},
    {"layers.*.mlp.up.bias",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.ffn.bias", Part::rows}}},
    {"layers.*.mlp.down.weight",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.ffn_output.weight", Part::rows}}},
    {"layers.*.mlp.down.bias",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.ffn_output.bias", Part::rows}}},
    {"layers.*.norm_2.weight",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.full_layer_layer_norm.weight",
       Part::rows}}},
    {"layers.*.norm_2.bias",
     {{"albert.encoder.albert_layer_groups.*.albert_layers.0.full_layer_layer_norm.bias",
       Part::rows}}},
    {"head.weight", {{"predictions.decoder.weight", Part::rows}}},
    {"head.bias", {{"predictions.decoder.bias", Part::rows}}, false, {}, false},
    {"head.bias", {{"predictions.bias", Part::rows}}},
    {"head.transform.weight", {{"predictions.dense.weight", Part::rows}}},
    {"head.transform.bias", {{"predictions.dense.bias", Part::rows}}},
    {"head.transform_norm.weight", {{"predictions.LayerNorm.weight", Part::rows}}},
    {"head.transform_norm.bias", {{"predictions.LayerNorm.bias", Part::rows}}},
    {"head.dense.weight", {{"albert.pooler.weight", Part::rows}}},
    {"head.dense.bias", {{"albert.pooler.bias", Part::rows}}},
    {"head.pair.dense.weight", {{"albert.pooler.weight", Part::rows}}},
    {"head.pair.dense.bias", {{"albert.pooler.bias", Part::rows}}},
    {"head.pair.output.weight", {{"sop_classifier.classifier.weight", Part::rows}}},
    {"head.pair.output.bias", {{"sop_classifier.classifier.bias", Part::rows}}},
    {"head.output.weight",
     {{"qa_outputs.weight", Part::rows}},
     false,
     HeadKind::question_answering},
    {"head.output.bias", {{"qa_outputs.bias", Part::rows}}, false, HeadKind::question_answering},
    {"head.output.weight", {{"classifier.weight", Part::rows}}},
    {"head.output.bias", {{"classifier.bias", Part::rows}}},
};
constexpr auto kRows = joined(kEncoderEmbeddingRows, kOwnRows);
/// A copy of the bias, and parts of AlbertForPreTraining that the class in hand does not have.
constexpr std::string_view kBuffers[] = {"albert.embeddings.position_ids",
                                         "predictions.bias",
                                         "predictions.decoder.bias",
                                         "sop_classifier.classifier.weight",
                                         "albert.pooler.bias",
                                         "sop_classifier.classifier.bias",
                                         "albert.pooler.weight"};
/// An untied projection has a bias of its own; the other is there and not read.
constexpr ForeignAlias kCopies[] = {{"predictions.decoder.bias", "predictions.bias"}};
constexpr HeadClass kOthers[] = {
    {"AlbertForSequenceClassification", HeadKind::sequence_classification},
    {"AlbertForSequenceClassification", HeadKind::sequence_regression},
    {"AlbertForTokenClassification", HeadKind::token_classification},
    {"AlbertForQuestionAnswering", HeadKind::question_answering},
    {"AlbertForPreTraining", HeadKind::pretraining},
};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  ModelSpec model = encoder_stack("albert", sizes, 2, where);
  model.embedding.width = 128;
  model.layer_groups = 1;
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  keys.find("classifier_dropout_prob");
  for (const char* unread : {"down_scale_factor", "gap_size", "net_structure_type",
                             "num_memory_blocks"})  // of the first release's files
    keys.find(unread);
  if (const int64_t inner = keys.size({"inner_group_num"}, 1); inner != 1)
    throw UserError("{}: inner_group_num {} is not supported (1)", keys.where(), inner);
  ModelSpec model = make(read_encoder_sizes(keys, {.layers = 12,
                                                   .hidden = 4096,
                                                   .heads = 64,
                                                   .ffn = 16384,
                                                   .context = 512,
                                                   .vocab = 30000}),
                         keys.where());
  model.embedding.width = keys.size({"embedding_size"}, 128);
  model.layer_groups = keys.size({"num_hidden_groups"}, 1);
  read_encoder(keys, model, {.activation = "gelu_new", .dropout = 0});
  model.head.transform->activation = model.layers[0].mlp.activation;
  read_head(keys, {kAlbert}, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  write_encoder(model, json);
  json["embedding_size"] = model.embedding.width;
  json["num_hidden_groups"] = model.num_groups();
  json["inner_group_num"] = 1;
  write_head(model, json);
}

}  // namespace albert_family

const Family kAlbert{
    "albert",
    "AlbertForMaskedLM",
    "AlbertModel",
    albert_family::make,
    albert_family::read,
    albert_family::write,
    3,
    {albert_family::kRows, albert_family::kBuffers, "albert.", {}, albert_family::kCopies},
    albert_family::kOthers,
    {},
    nullptr,
    true};

}  // namespace megalith::models
