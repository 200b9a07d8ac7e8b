// SPDX-License-Identifier: Apache-2.0
// What a recipe says of tuning a model that is there (tune/).
#pragma once

#include <algorithm>

#include "settings/field.h"

namespace megalith::config {

using settings::FieldVisitor;
using settings::format_as;
using settings::name_of;

enum class TuneMethod : uint8_t { full, lora, ia3, adapter, p_tuning, prompt, classify, dpo };
/// What a classifier predicts: a class of each text, a class of each word, or the span of a text
/// that answers a question.
enum class ClassifyTask : uint8_t {
  sequence_classification,
  token_classification,
  question_answering
};
/// What is learned of an example: its answer, which of two answers is preferred, or what `task`
/// says.
enum class TuneObjective : uint8_t { sft, dpo, classify };
/// What the rows of virtual tokens begin as.
enum class PromptInit : uint8_t { vocabulary, text, random };
/// What their rows are made by (prompts/prompt_encoder.h).
enum class PromptEncoderKind : uint8_t { mlp, lstm, embedding };
/// What becomes of examples that are longer than a sample.
enum class Overlong : uint8_t { drop, truncate, refuse };
/// How frozen weights are held beside what trains: as in the model's files, or in blocks.
enum class FrozenWeights : uint8_t { stored, q8_0, q4_0, q4_1 };

}  // namespace megalith::config

namespace megalith::settings {

template <>
struct EnumNames<config::TuneMethod> {
  static constexpr std::array<std::string_view, 8> names = {
      "full", "lora", "ia3", "adapter", "p_tuning", "prompt", "classify", "dpo"};
};
template <>
struct EnumNames<config::ClassifyTask> {
  static constexpr std::array<std::string_view, 3> names = {
      "sequence_classification", "token_classification", "question_answering"};
};
template <>
struct EnumNames<config::TuneObjective> {
  static constexpr std::array<std::string_view, 3> names = {"sft", "dpo", "classify"};
};
template <>
struct EnumNames<config::PromptInit> {
  static constexpr std::array<std::string_view, 3> names = {"vocabulary", "text", "random"};
};
template <>
struct EnumNames<config::PromptEncoderKind> {
  static constexpr std::array<std::string_view, 3> names = {"mlp", "lstm", "embedding"};
};
template <>
struct EnumNames<config::Overlong> {
  static constexpr std::array<std::string_view, 3> names = {"drop", "truncate", "refuse"};
};
template <>
struct EnumNames<config::FrozenWeights> {
  static constexpr std::array<std::string_view, 4> names = {"stored", "q8_0", "q4_0", "q4_1"};
};

}  // namespace megalith::settings

namespace megalith::config {

/// One of several tasks that train in one run, each behind virtual tokens of its own.
struct TuneTask {
  std::string name;
  std::vector<std::string> data = {}, validation = {};
  std::string template_text = {};
  std::string prompt_text = {};
  void visit(FieldVisitor& v);
};

struct TuneSection {
  TuneMethod method = TuneMethod::full;
  TuneObjective objective = TuneObjective::sft;
  std::string model;
  std::vector<std::string> data, validation;
  std::string template_text;
  Overlong overlong = Overlong::drop;
  int64_t answer_length = 0;  // 0: train.sequence_length
  FrozenWeights quantize = FrozenWeights::stored;
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;
  bool rank_stabilised = false;
  bool magnitudes = false;
  std::vector<std::string> targets;
  int64_t adapter_dim = 32;
  ClassifyTask task = ClassifyTask::sequence_classification;
  std::vector<std::string> labels;
  int64_t stride = 128;
  int64_t virtual_tokens = 20;  // of each task
  std::vector<double> splits;   // of them, whole numbers: in place of each mark of a template
  std::vector<TuneTask> tasks;  // none: all lines are of one
  PromptInit prompt_init = PromptInit::vocabulary;
  std::string prompt_text;
  PromptEncoderKind encoder = PromptEncoderKind::mlp;
  int64_t encoder_hidden = 0;
  int64_t encoder_layers = 2;
  /// Whether virtual tokens train before texts.
  bool has_virtual_tokens() const {
    return method == TuneMethod::prompt || method == TuneMethod::p_tuning;
  }
  /// Rows of virtual tokens: those of one task behind those of another.
  int64_t num_virtual_rows() const {
    return virtual_tokens * static_cast<int64_t>(tasks.empty() ? 1 : tasks.size());
  }
  /// How many rows stand in place of each mark; none: all stand before a text.
  std::vector<int64_t> rows_of_marks() const { return {splits.begin(), splits.end()}; }
  /// Whether there are files for validation, of all lines or of a task.
  bool has_validation() const {
    return !validation.empty() ||
           std::ranges::any_of(tasks, [](const TuneTask& one) { return !one.validation.empty(); });
  }
  /// Whether what trains lies beside frozen weights.
  bool trains_beside() const {
    return method == TuneMethod::lora || method == TuneMethod::ia3 ||
           method == TuneMethod::adapter || has_virtual_tokens();
  }
  double beta = 0.1;
  double label_smoothing = 0;
  int64_t seeds = 1;
  void visit(FieldVisitor& v);

 private:
  void visit_beside(FieldVisitor& v);
  void visit_classes(FieldVisitor& v);
  void visit_virtual_tokens(FieldVisitor& v);
};

}  // namespace megalith::config
