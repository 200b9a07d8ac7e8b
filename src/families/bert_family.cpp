// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al. 2019). Sources: BertConfig and modeling_bert.py of transformers 4 and 5.
#include "families/encoder_keys.h"
#include "families/encoder_rows.h"

namespace megalith::models {
namespace bert_family {

constexpr ForeignRow kHeadRows[] = {
    {"head.weight", {{"cls.predictions.decoder.weight", Part::rows}}},
    {"head.bias", {{"cls.predictions.decoder.bias", Part::rows}}, false, {}, false},
    {"head.bias", {{"cls.predictions.bias", Part::rows}}},
    {"head.transform.weight", {{"cls.predictions.transform.dense.weight", Part::rows}}},
    {"head.transform.bias", {{"cls.predictions.transform.dense.bias", Part::rows}}},
    {"head.transform_norm.weight", {{"cls.predictions.transform.LayerNorm.weight", Part::rows}}},
    {"head.transform_norm.bias", {{"cls.predictions.transform.LayerNorm.bias", Part::rows}}},
    {"head.dense.weight", {{"bert.pooler.dense.weight", Part::rows}}},
    {"head.dense.bias", {{"bert.pooler.dense.bias", Part::rows}}},
    {"head.pair.dense.weight", {{"bert.pooler.dense.weight", Part::rows}}},
    {"head.pair.dense.bias", {{"bert.pooler.dense.bias", Part::rows}}},
    {"head.pair.output.weight", {{"cls.seq_relationship.weight", Part::rows}}},
    {"head.pair.output.bias", {{"cls.seq_relationship.bias", Part::rows}}},
    {"head.output.weight",
     {{"qa_outputs.weight", Part::rows}},
     false,
     layers::HeadKind::question_answering},
    {"head.output.bias",
     {{"qa_outputs.bias", Part::rows}},
     false,
     layers::HeadKind::question_answering},
    {"head.output.weight", {{"classifier.weight", Part::rows}}},
    {"head.output.bias", {{"classifier.bias", Part::rows}}},
};
constexpr auto kRows = joined(kEncoderEmbeddingRows, kEncoderLayerRows, kHeadRows);
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
    {"BertForQuestionAnswering", layers::HeadKind::question_answering},
    {"BertForPreTraining", layers::HeadKind::pretraining},
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
                   bert_family::kOthers,
                   {},
                   nullptr,
                   true};

}  // namespace megalith::models
