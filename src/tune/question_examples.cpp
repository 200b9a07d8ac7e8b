// SPDX-License-Identifier: Apache-2.0
#include "tune/question_examples.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "questions/question_scores.h"

namespace megalith::tune {
namespace {

using questions::WindowAnswer;

constexpr int64_t kNumbersOfWindow = 4;

/// The questions of another file behind those that are there.
void append_questions(questions::QuestionSet&& more, questions::QuestionSet& all) {
  const size_t contexts = all.contexts.size();
  std::ranges::move(more.contexts, std::back_inserter(all.contexts));
  for (questions::Question& question : more.questions) {
    question.context += contexts;
    all.questions.push_back(std::move(question));
  }
  all.has_unanswerable = all.has_unanswerable || more.has_unanswerable;
}

/// Start and end logits of a sequence's tokens.
questions::TokenScores scores_of_tokens(std::span<const double> y_TO) {
  questions::TokenScores scores(y_TO.size() / 2);
  for (size_t t = 0; t < scores.size(); ++t) scores[t] = {y_TO[2 * t], y_TO[2 * t + 1]};
  return scores;
}

/// Numbers and texts one after another, each text behind its length, so that none runs into the
/// next.
class Digest {
 public:
  void add(int64_t number) { sha_.update(&number, sizeof number); }
  void add(const std::string& text) {
    add(std::ssize(text));
    sha_.update(text.data(), text.size());
  }
  std::string finish() { return sha_.finish(); }

 private:
  Sha256 sha_;
};

}  // namespace

std::vector<Example> read_questions(const std::vector<std::string>& files,
                                    const text::Tokenizer& tokenizer,
                                    const questions::WindowRule& rule, ExampleCounts& counts,
                                    AskedQuestions* asked) {
  std::vector<Example> examples;
  if (asked != nullptr) *asked = {};
  for (const std::string& file : files) {
    questions::QuestionSet set =
        questions::read_question_file(file, questions::AnswerPlaces::needed);
    questions::QuestionEncoder encoder(tokenizer, rule);
    for (const questions::Question& question : set.questions) {
      ++counts.lines;
      for (questions::QuestionWindow& window : encoder.windows(set, question)) {
        const auto [first, last] = questions::answer_in(window, question);
        Example& example = examples.emplace_back(
            Example{std::exchange(window.ids, {}), {}, std::exchange(window.types, {})});
        example.learned.assign(example.ids.size(), 0);
        example.target = Target{.label = first, .last = last};
        if (asked != nullptr) asked->windows.push_back(std::move(window));
      }
      if (asked != nullptr) asked->begins.push_back(std::ssize(asked->windows));
    }
    if (asked != nullptr) append_questions(std::move(set), asked->set);
  }
  return examples;
}

AnswerJudge::AnswerJudge(AskedQuestions asked, std::shared_ptr<const ExampleSource> source)
    : asked_(std::move(asked)),
      source_(std::move(source)),
      rule_{.may_be_none = asked_.set.has_unanswerable} {
  MEGA_CHECK_EQ(source_->num_examples(), std::ssize(asked_.windows));
  MEGA_CHECK_EQ(asked_.begins.size(), asked_.set.questions.size() + 1);
}

void AnswerJudge::keep(const data::HostBatch& batch, std::span<const double> y_TO,
                       std::vector<double>& kept) const {
  size_t sequence = 0;
  for (int64_t n = 0; n < batch.num_samples; ++n) {
    const int64_t sample = batch.first_sample + n;
    for (const int64_t example : source_->examples_of(sample)) {
      const questions::QuestionWindow& window = asked_.windows[static_cast<size_t>(example)];
      const auto begin = static_cast<size_t>(batch.cu_seqlens[sequence]);
      const auto end = static_cast<size_t>(batch.cu_seqlens[sequence + 1]);
      ++sequence;
      const auto logits = y_TO.subspan(2 * begin, 2 * (end - begin));
      if (!metrics::are_finite(logits)) {
        kept.insert(kept.end(), kNumbersOfWindow, metrics::kNoScore);
        continue;
      }
      const WindowAnswer said = questions::window_answer(window, scores_of_tokens(logits), rule_);
      kept.insert(kept.end(), {said.score, static_cast<double>(said.place.begin),
                               static_cast<double>(said.place.end), said.none});
    }
    // What fills a sample is a sequence of no example.
    const auto sequences = batch.sequence_sample.size();
    if (sequence < sequences && batch.sequence_sample[sequence] == sample) ++sequence;
  }
}

std::string AnswerJudge::fingerprint() const {
  Digest digest;
  digest.add(asked_.set.has_unanswerable ? 1 : 0);
  digest.add(std::ssize(asked_.set.contexts));
  for (const std::string& context : asked_.set.contexts) digest.add(context);
  for (size_t q = 0; q < asked_.set.questions.size(); ++q) {
    const questions::Question& question = asked_.set.questions[q];
    digest.add(static_cast<int64_t>(question.context));
    digest.add(asked_.begins[q + 1]);
    digest.add(std::ssize(question.answers));
    for (const questions::Question::Answer& answer : question.answers) digest.add(answer.text);
  }
  for (const questions::QuestionWindow& window : asked_.windows) {
    digest.add(window.context_begin);
    digest.add(std::ssize(window.places));
    for (const text::TextRange& place : window.places) {
      digest.add(place.begin);
      digest.add(place.end);
    }
  }
  return "answers-" + digest.finish();
}

std::vector<size_t> AnswerJudge::whole_questions(int64_t samples) const {
  std::vector<bool> was_read(asked_.windows.size(), false);
  for (int64_t n = 0; n < samples; ++n)
    for (const int64_t example : source_->examples_of(n))
      was_read[static_cast<size_t>(example)] = true;
  std::vector<size_t> whole;
  for (size_t q = 0; q + 1 < asked_.begins.size(); ++q) {
    const auto begin = was_read.begin() + asked_.begins[q];
    const auto end = was_read.begin() + asked_.begins[q + 1];
    if (std::find(begin, end, false) == end) whole.push_back(q);
  }
  return whole;
}

metrics::Scores AnswerJudge::scores(int64_t samples, std::span<const double> kept) const {
  const questions::QuestionSet& set = asked_.set;
  std::vector<WindowAnswer> said(asked_.windows.size());
  size_t at = 0;
  bool all_finite = true;
  for (int64_t n = 0; n < samples; ++n) {
    for (const int64_t example : source_->examples_of(n)) {
      const auto number = kept.subspan(at, kNumbersOfWindow);
      at += kNumbersOfWindow;
      if (std::isnan(number[0])) {
        all_finite = false;
        continue;
      }
      const text::TextRange place{static_cast<int64_t>(number[1]), static_cast<int64_t>(number[2])};
      said[static_cast<size_t>(example)] = {number[0], place, number[3]};
    }
  }
  MEGA_CHECK_EQ(at, kept.size());
  questions::QuestionSet whole;
  whole.has_unanswerable = set.has_unanswerable;
  questions::GivenAnswers given;
  for (const size_t q : whole_questions(samples)) {
    const auto begin = static_cast<size_t>(asked_.begins[q]);
    const auto count = static_cast<size_t>(asked_.begins[q + 1]) - begin;
    const questions::Question& question = whole.questions.emplace_back(set.questions[q]);
    given.emplace_back(questions::best_answer(set.contexts[question.context],
                                              std::span(said).subspan(begin, count), rule_));
  }
  metrics::Scores scores;
  if (given.empty()) return scores;
  const auto judged = questions::answer_scores(whole, given);
  for (const auto& [name, value] : judged.items())
    scores.emplace_back(name, all_finite ? value.get<double>() : metrics::kNoScore);
  return scores;
}

}  // namespace megalith::tune
