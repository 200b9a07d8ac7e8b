// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al. 2019). Sources: BertConfig and modeling_bert.py of transformers 4 and 5.
#include "families/encoder_keys.h"

namespace megalith::models {
namespace bert_family {

constexpr ForeignRow kRows[] = {
    {"embedding.weight", {{"bert.embeddings.word_embeddings.weight", Part::rows}}},
    {"position.weight", {{"bert.embeddings.position_embeddings.weight", Part::rows}}},
    {"token_type.weight", {{"bert.embeddings.token_type_embeddings.weight", Part::rows}}},
    {"embedding.norm.weight", {{"bert.embeddings.LayerNorm.weight", Part::rows}}},
    {"embedding.norm.bias", {{"bert.embeddings.LayerNorm.bias", Part::rows}}},
    {"layers.*.attention.qkv.weight",
     {{"bert.encoder.layer.*.attention.self.query.weight", Part::query},
      {"bert.encoder.layer.*.attention.self.key.weight", Part::key},
      {"bert.encoder.layer.*.attention.self.value.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"bert.encoder.layer.*.attention.self.query.bias", Part::query},
      {"bert.encoder.layer.*.attention.self.key.bias", Part::key},
      {"bert.encoder.layer.*.attention.self.value.bias", Part::value}}},
    {"layers.*.attention.output.weight",
     {{"bert.encoder.layer.*.attention.output.dense.weight", Part::rows}}},
    {"layers.*.attention.output.bias",
     {{"bert.encoder.layer.*.attention.output.dense.bias", Part::rows}}},
    {"layers.*.norm_1.weight",
     {{"bert.encoder.layer.*.attention.output.LayerNorm.weight", Part::rows}}},
    {"layers.*.norm_1.bias",
     {{"bert.encoder.layer.*.attention.output.LayerNorm.bias", Part::rows}}},
    {"layers.*.mlp.up.weight", {{"bert.encoder.layer.*.intermediate.dense.weight", Part::rows}}},
    {"layers.*.mlp.up.bias", {{"bert.encoder.layer.*.intermediate.dense.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{"bert.encoder.layer.*.output.dense.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"bert.encoder.layer.*.output.dense.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{"bert.encoder.layer.*.output.LayerNorm.weight", Part::rows}}},
    {"layers.*.norm_2.bias", {{"bert.encoder.layer.*.output.LayerNorm.bias", Part::rows}}},
    {"head.weight", {{"cls.predictions.decoder.weight", Part::rows}}},
    {"head.bias", {{"cls.predictions.decoder.bias", Part::rows}}, false, {}, false},
    {"head.bias", {{"cls.predictions.bias", Part::rows}}},
    {"head.transform.weight", {{"cls.predictions.transform.dense.weight", Part::rows}}},
    {"head.transform.bias", {{"cls.predictions.transform.dense.bias", Part::rows}}},
    {"head.transform_norm.weight", {{"cls.predictions.transform.LayerNorm.weight", Part::rows}}},
    {"head.transform_norm.bias", {{"cls.predictions.transform.LayerNorm.bias", Part::rows}}},
    {"head.dense.weight", {{"bert.pooler.dense.weight", Part::rows}}},
    {"head.dense.bias", {{"bert.pooler.dense.bias", Part::rows}}},
    {"head.output.weight", {{"classifier.weight", Part::rows}}},
    {"head.output.bias", {{"classifier.bias", Part::rows}}},
};
/// A copy of the bias, and parts of BertForPreTraining that the class in hand does not have.
constexpr std::string_view kBuffers[] = {
    "bert.embeddings.position_ids", "cls.predictions.bias",      "cls.predictions.decoder.bias",
    "cls.seq_relationship.weight",  "cls.seq_relationship.bias", "bert.pooler.dense.weight",
    "bert.pooler.dense.bias"};
/// What files made before 2020 call the weights of norms.
constexpr ForeignAlias kAliases[] = {{"*LayerNorm.weight", "*LayerNorm.gamma"},
                                     {"*LayerNorm.bias", "*LayerNorm.beta"}};
/// An untied projection has a bias of its own; the other is there and not read.
constexpr ForeignAlias kCopies[] = {{"cls.predictions.decoder.bias", "cls.predictions.bias"}};
constexpr HeadClass kOthers[] = {
    {"BertForSequenceClassification", layers::HeadKind::sequence_classification},
    {"BertForSequenceClassification", layers::HeadKind::sequence_regression},
    {"BertForTokenClassification", layers::HeadKind::token_classification},
    {"BertForPreTraining", layers::HeadKind::language_model},
};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  return encoder_stack("bert", sizes, 2, where);
}

ModelSpec read(const ConfigKeys& keys) {
  ModelSpec model = make(read_encoder_sizes(keys, {.context = 512, .vocab = 30522}), keys.where());
  read_encoder(keys, model);
  model.head.transform->activation = model.layers[0].mlp.activation;
  read_head(keys, {kBert}, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  write_encoder(model, json);
  write_head(model, json);
}

}  // namespace bert_family

const Family kBert{"bert",
                   "BertForMaskedLM",
                   "BertModel",
                   bert_family::make,
                   bert_family::read,
                   bert_family::write,
                   -1,
                   {bert_family::kRows, bert_family::kBuffers, "bert.", bert_family::kAliases,
                    bert_family::kCopies},
                   bert_family::kOthers};

}  // namespace megalith::models
