// SPDX-License-Identifier: Apache-2.0
#include "families/encoder_keys.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "spec/head_types.h"

namespace megalith::models {
namespace {

using layers::HeadKind;
using nlohmann::ordered_json;

/// Of num_labels or id2label, whose keys are numbers from 0 on.
std::vector<std::string> read_labels(const ConfigKeys& keys) {
  constexpr int64_t kMostLabels = 1 << 20;
  const nlohmann::json* const names = keys.find("id2label");
  const int64_t count =
      keys.size({"num_labels"}, names != nullptr ? static_cast<int64_t>(names->size()) : 2);
  if (count > kMostLabels) throw UserError("{}: num_labels {} are too many", keys.where(), count);
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(fmt::format("LABEL_{}", i));
    if (names == nullptr) continue;
    const auto name = names->find(std::to_string(i));
    if (!names->is_object() || name == names->end() || !name->is_string()) {
      throw UserError("{}: id2label has no name for {}, which num_labels {} needs", keys.where(), i,
                      count);
    }
    labels.back() = name->get<std::string>();
  }
  return labels;
}

HeadKind kind_of(const ConfigKeys& keys, const Family& family) {
  const nlohmann::json* const classes = keys.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty() ||
      !classes->front().is_string())
    return HeadKind::language_model;
  const std::string name = classes->front().get<std::string>();
  if (name == family.class_name) return HeadKind::language_model;
  if (name == family.model_class) return HeadKind::none;
  const auto other = std::ranges::find(family.others, name, &HeadClass::name);
  if (other != family.others.end()) return other->head;
  std::vector<std::string_view> known = {family.class_name, family.model_class};
  for (const HeadClass& each : family.others) known.push_back(each.name);
  throw UserError("{}: architectures {} is not supported ({})", keys.where(),
                  ConfigKeys::shown(name), fmt::join(known, ", "));
}

}  // namespace

ModelSpec encoder_stack(std::string_view family, const Sizes& sizes, int64_t token_types,
                        const std::string& where) {
  layers::LayerSpec layer;
  layer.norm_place = layers::NormPlace::post;
  layer.attention.causal = false;
  layer.mlp.activation = layers::Activation::gelu_erf;
  ModelSpec model = uniform_stack(sizes, layer, where);
  model.family = family;
  model.embedding.token_types = token_types;
  model.embedding.norm = layer.norm;
  model.head.norm = false;
  model.head.bias = true;
  model.head.transform = layers::TransformSpec{.norm = layer.norm};
  return model;
}

Sizes read_encoder_sizes(const ConfigKeys& keys, const Sizes& usual) {
  return {.layers = keys.size({"num_hidden_layers"}, usual.layers),
          .hidden = keys.size({"hidden_size"}, usual.hidden),
          .heads = keys.size({"num_attention_heads"}, usual.heads),
          .ffn = keys.size({"intermediate_size"}, usual.ffn),
          .context = keys.size({"max_position_embeddings"}, usual.context),
          .vocab = keys.size({"vocab_size"}, usual.vocab)};
}

void read_encoder(const ConfigKeys& keys, ModelSpec& model, const EncoderDefaults& usual) {
  keys.only("is_decoder", false);
  if (const std::string kind = keys.text("position_embedding_type", "absolute");
      kind != "absolute") {
    throw UserError("{}: position_embedding_type {} is not supported (absolute)", keys.where(),
                    ConfigKeys::shown(kind));
  }
  model.embedding.token_types = keys.integer({"type_vocab_size"}, model.embedding.token_types);
  read_activation(keys, "hidden_act", usual.activation, model);
  read_norm_eps(keys, "layer_norm_eps", 1e-12, model);
  model.embedding.norm->eps = model.head.transform->norm.eps = model.final_norm.eps;
  model.dropout =
      read_dropout(keys, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, usual.dropout);
  read_ends(keys, true, model);
}

void write_encoder(const ModelSpec& model, ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  json["vocab_size"] = model.vocab;
  json["hidden_size"] = model.hidden;
  json["num_hidden_layers"] = model.num_layers();
  json["num_attention_heads"] = layer.attention.heads;
  json["intermediate_size"] = layer.mlp.ffn;
  write_activation(model, "hidden_act", json);
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    json[key] = model.dropout;
  json["max_position_embeddings"] = model.context + model.embedding.position_offset;
  json["type_vocab_size"] = model.embedding.token_types;
  json["initializer_range"] = model.init_std;
  json["layer_norm_eps"] = layer.norm.eps;
  json["position_embedding_type"] = "absolute";
}

void read_head(const ConfigKeys& keys, const EncoderHeads& heads, ModelSpec& model) {
  layers::HeadSpec& head = model.head;
  head.kind = kind_of(keys, heads.family);
  if (layers::head_type(head.kind).has_logits) return;
  const bool is_of_tokens = layers::reads_each_token(head.kind) && head.kind != HeadKind::none;
  const bool pooler =
      head.kind == HeadKind::none ? heads.pooler_for_rows : heads.pooler_for_sequences;
  const bool norm = head.norm;
  head = {.kind = head.kind, .norm = norm, .tied = false};
  if (!is_of_tokens) {
    head.pooling = layers::Pooling::first;
    if (pooler) head.dense = layers::HeadDense::tanh;
  }
  if (head.kind == HeadKind::none) return;
  if (head.kind == HeadKind::question_answering) {
    head.outputs = 2;
    return;
  }
  head.labels = read_labels(keys);
  head.outputs = std::ssize(head.labels);
  const std::string problem = keys.text("problem_type", "");
  if (problem == "multi_label_classification")
    throw UserError("{}: problem_type {} is not supported", keys.where(), problem);
  if (!is_of_tokens && (problem == "regression" || (problem.empty() && head.outputs == 1)))
    head.kind = HeadKind::sequence_regression;
}

void write_head(const ModelSpec& model, ordered_json& json) {
  const layers::HeadSpec& head = model.head;
  if (head.outputs == 0 || head.kind == HeadKind::question_answering) return;
  ordered_json names = ordered_json::object(), numbers = ordered_json::object();
  for (int64_t i = 0; i < head.outputs; ++i) {
    const std::string label =
        head.labels.empty() ? fmt::format("LABEL_{}", i) : head.labels[static_cast<size_t>(i)];
    names[std::to_string(i)] = label;
    numbers[label] = i;
  }
  json["id2label"] = names;
  json["label2id"] = numbers;
  if (head.kind == HeadKind::sequence_regression) json["problem_type"] = "regression";
}

}  // namespace megalith::models
