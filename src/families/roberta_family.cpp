// SPDX-License-Identifier: Apache-2.0
// RoBERTa (Liu et al. 2019). Positions are counted from behind the padding token's id on. Sources:
// RobertaConfig and modeling_roberta.py of transformers 4 and 5.
#include "base/error.h"
#include "families/encoder_keys.h"
#include "families/encoder_rows.h"

namespace megalith::models {
namespace roberta_family {

using layers::HeadKind;

constexpr ForeignRow kHeadRows[] = {
    {"head.weight", {{"lm_head.decoder.weight", Part::rows}}},
    {"head.bias", {{"lm_head.decoder.bias", Part::rows}}, false, {}, false},
    {"head.bias", {{"lm_head.bias", Part::rows}}},
    {"head.transform.weight", {{"lm_head.dense.weight", Part::rows}}},
    {"head.transform.bias", {{"lm_head.dense.bias", Part::rows}}},
    {"head.transform_norm.weight", {{"lm_head.layer_norm.weight", Part::rows}}},
    {"head.transform_norm.bias", {{"lm_head.layer_norm.bias", Part::rows}}},
    {"head.dense.weight", {{"roberta.pooler.dense.weight", Part::rows}}, false, HeadKind::none},
    {"head.dense.bias", {{"roberta.pooler.dense.bias", Part::rows}}, false, HeadKind::none},
    {"head.dense.weight", {{"classifier.dense.weight", Part::rows}}},
    {"head.dense.bias", {{"classifier.dense.bias", Part::rows}}},
    {"head.output.weight",
     {{"qa_outputs.weight", Part::rows}},
     false,
     HeadKind::question_answering},
    {"head.output.bias", {{"qa_outputs.bias", Part::rows}}, false, HeadKind::question_answering},
    {"head.output.weight",
     {{"classifier.weight", Part::rows}},
     false,
     HeadKind::token_classification},
    {"head.output.bias", {{"classifier.bias", Part::rows}}, false, HeadKind::token_classification},
    {"head.output.weight", {{"classifier.out_proj.weight", Part::rows}}},
    {"head.output.bias", {{"classifier.out_proj.bias", Part::rows}}},
};
constexpr auto kRows = joined(kEncoderEmbeddingRows, kEncoderLayerRows, kHeadRows);
/// A copy of the bias, and the pooler of a class that does not have it.
constexpr std::string_view kBuffers[] = {"roberta.embeddings.position_ids", "lm_head.bias",
                                         "lm_head.decoder.bias", "roberta.pooler.dense.weight",
                                         "roberta.pooler.dense.bias"};
/// An untied projection has a bias of its own; the other is there and not read.
constexpr ForeignAlias kCopies[] = {{"lm_head.decoder.bias", "lm_head.bias"}};
constexpr HeadClass kOthers[] = {
    {"RobertaForSequenceClassification", HeadKind::sequence_classification},
    {"RobertaForSequenceClassification", HeadKind::sequence_regression},
    {"RobertaForTokenClassification", HeadKind::token_classification},
    {"RobertaForQuestionAnswering", HeadKind::question_answering},
};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  ModelSpec model = encoder_stack("roberta", sizes, 1, where);
  model.embedding.position_offset = 2;
  return model;
}

ModelSpec read(const ConfigKeys& keys) {
  const int64_t offset = keys.integer({"pad_token_id"}, 1) + 1;
  Sizes sizes = read_encoder_sizes(keys, {.context = 512, .vocab = 50265});
  if (offset < 1 || offset >= sizes.context) {
    throw UserError("{}: pad_token_id {} leaves no positions of max_position_embeddings {}",
                    keys.where(), offset - 1, sizes.context);
  }
  sizes.context -= offset;
  ModelSpec model = make(sizes, keys.where());
  model.embedding.token_types = 2;  // the class's default
  read_encoder(keys, model);
  model.embedding.position_offset = offset;
  read_head(keys, {kRoberta}, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  write_encoder(model, json);
  write_head(model, json);
  json["pad_token_id"] = model.embedding.position_offset - 1;
}

}  // namespace roberta_family

const Family kRoberta{
    "roberta",
    "RobertaForMaskedLM",
    "RobertaModel",
    roberta_family::make,
    roberta_family::read,
    roberta_family::write,
    -1,
    {roberta_family::kRows, roberta_family::kBuffers, "roberta.", {}, roberta_family::kCopies},
    roberta_family::kOthers};

}  // namespace megalith::models
