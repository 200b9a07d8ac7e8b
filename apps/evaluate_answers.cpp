// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/checkpoint_options.h"
#include "apps/evaluate_marks.h"
#include "base/error.h"
#include "base/file.h"
#include "inference/sequence_reader.h"
#include "questions/answer_spans.h"
#include "questions/question_scores.h"

namespace megalith::apps {
namespace {

using nlohmann::ordered_json;
using questions::Question;
using questions::QuestionSet;
using questions::QuestionWindow;

struct AnswerOptions {
  CheckpointOptions checkpoint;
  std::string input;
  std::optional<std::string> output;
  int64_t length = 384;
  int64_t stride = 128;
  int64_t limit = 0;
  questions::AnswerRule rule;
};

/// Questions whose windows go through the model together: enough to fill its passes.
constexpr size_t kQuestionsAtOnce = 32;

store::ModelSource open_answering(const AnswerOptions& o) {
  auto source = open_classifier(o.checkpoint);
  const layers::HeadKind kind = source.spec().head.kind;
  if (kind != layers::HeadKind::question_answering) {
    throw UserError(
        "{}: answers need a model whose head says where they begin and end (question_answering); "
        "this one's is for {}",
        o.checkpoint.path, settings::name_of(kind));
  }
  return source;
}

/// The windows of each question.
std::vector<std::vector<QuestionWindow>> windows_of(const AnswerOptions& o,
                                                    const store::ModelSource& source,
                                                    const QuestionSet& set) {
  questions::QuestionEncoder encoder(source.require_tokenizer(),
                                     {.most_tokens = std::min(o.length, source.spec().context),
                                      .stride = o.stride,
                                      .has_types = source.spec().embedding.token_types > 1,
                                      .tokens_key = "--length",
                                      .stride_key = "--stride"});
  std::vector<std::vector<QuestionWindow>> windows;
  for (const Question& question : set.questions) {
    windows.push_back(encoder.windows(set, question));
    for (const QuestionWindow& window : windows.back())
      inference::check_readable(source.spec(), {window.ids, window.types});
  }
  return windows;
}

/// The answers to some questions. Collective over the model's ranks.
std::vector<std::string> answers_to(const QuestionSet& set, std::span<const Question> asked,
                                    std::span<const std::vector<QuestionWindow>> windows,
                                    const questions::AnswerRule& rule,
                                    inference::SequenceReader& reader) {
  std::vector<inference::Reading> readings;
  for (const std::vector<QuestionWindow>& each : windows)
    for (const QuestionWindow& window : each) readings.push_back({window.ids, window.types});
  const std::vector<questions::TokenScores> scores = reader.outputs(readings);
  inference::require_finite(scores);
  std::vector<std::string> answers;
  size_t first = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    std::vector<questions::WindowAnswer> said;
    for (size_t w = 0; w < windows[i].size(); ++w)
      said.push_back(questions::window_answer(windows[i][w], scores[first + w], rule));
    first += windows[i].size();
    answers.push_back(questions::best_answer(set.contexts[asked[i].context], said, rule));
  }
  return answers;
}

void print_scores(const ordered_json& metrics, int64_t asked, bool json) {
  if (json) return print_json({{"metrics", metrics}, {"examples", asked}});
  for (const auto& [name, value] : metrics.items())
    fmt::print("{} {:.4f}\n", name, value.get<double>());
  fmt::print("{} questions\n", asked);
}

int judge_answers(const AnswerOptions& o, bool json) {
  const auto source = open_answering(o);
  QuestionSet set = questions::read_question_file(o.input, questions::AnswerPlaces::ignored);
  if (o.limit > 0 && o.limit < std::ssize(set.questions))
    set.questions.resize(static_cast<size_t>(o.limit));
  const auto windows = windows_of(o, source, set);
  questions::AnswerRule rule = o.rule;
  rule.may_be_none = set.has_unanswerable;
  std::string asked = fmt::format("{} {} {}\n", rule.best, rule.most_tokens, rule.none_threshold);
  for (const auto& each : windows)
    for (const QuestionWindow& window : each)
      asked += fmt::format("{} {}\n", window.ids, window.types);
  on_model_ranks(o.checkpoint, source, asked, [&](const ModelRank& rank) {
    inference::SequenceReader reader(rank.engine.model());
    std::vector<std::string> answers;
    for (size_t begin = 0; begin < windows.size(); begin += kQuestionsAtOnce) {
      const size_t count = std::min(kQuestionsAtOnce, windows.size() - begin);
      const auto some = answers_to(set, std::span(set.questions).subspan(begin, count),
                                   std::span(windows).subspan(begin, count), rule, reader);
      answers.insert(answers.end(), some.begin(), some.end());
    }
    if (!rank.is_rank_zero) return;
    if (o.output) {
      ordered_json said = ordered_json::object();
      for (size_t i = 0; i < answers.size(); ++i) said[set.questions[i].id] = answers[i];
      write_file_durable(*o.output, said.dump(1) + "\n");
    }
    print_scores(questions::answer_scores(set, {answers.begin(), answers.end()}),
                 std::ssize(answers), json);
  });
  return 0;
}

}  // namespace

void add_answers(CLI::App& parent, Invocation& invocation) {
  CLI::App& c =
      add_command(parent, invocation, "answers",
                  "exact match and F1 of extractive question answering (SQuAD's JSON)",
                  "  megalith evaluate answers --checkpoint bert-squad --input dev-v1.1.json\n"
                  "  megalith evaluate answers --checkpoint bert-squad --input dev-v2.0.json "
                  "--output said.json\n");
  auto o = std::make_shared<AnswerOptions>();
  o->checkpoint.declare(c);
  o->checkpoint.declare_adapter(c);
  c.add_option("--input", o->input, "questions in SQuAD's JSON")->required();
  c.add_option("--output", o->output, "a file for the answers, {\"id\": \"text\"}");
  c.add_option("--length", o->length,
               "most tokens of a window with its question (max_seq_length); the model's context at "
               "most")
      ->check(whole_number(8, 1 << 20))
      ->capture_default_str();
  c.add_option("--stride", o->stride,
               "tokens that neighbouring windows of a text share (doc_stride)")
      ->check(whole_number(0, 1 << 20))
      ->capture_default_str();
  c.add_option("--n-best", o->rule.best,
               "highest start and end logits of a window that are combined (n_best_size)")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  c.add_option("--max-answer-length", o->rule.most_tokens, "most tokens of an answer")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  c.add_option(
       "--null-threshold", o->rule.none_threshold,
       "where some questions have no answer: by how much the score of no answer must exceed "
       "the best answer's (null_score_diff_threshold)")
      ->check(CLI::Range(-1e6, 1e6))
      ->capture_default_str();
  c.add_option("--limit", o->limit, "the first questions alone; 0: all")->check(whole_number(0));
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return judge_answers(*o, invocation.json); };
  });
}

}  // namespace megalith::apps
