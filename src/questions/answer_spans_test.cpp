// SPDX-License-Identifier: Apache-2.0
#include "questions/answer_spans.h"

#include <gtest/gtest.h>

namespace megalith::questions {
namespace {

const std::string kContext = "one two three four";

/// [CLS] ? [SEP] one two three four [SEP], or of them those from `first` on.
QuestionWindow window_from(size_t first) {
  const std::vector<text::TextRange> all = {{0, 3}, {4, 7}, {8, 13}, {14, 18}};
  QuestionWindow window{
      {2, 9, 3}, {}, 3, {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()}};
  window.ids.resize(4 + window.places.size(), 3);
  return window;
}

TokenScores scores_of(const QuestionWindow& window, double none = 0) {
  TokenScores scores(window.ids.size(), {-10, -10});
  scores[0] = {none, none};
  return scores;
}

TEST(BestAnswer, IsTheLikeliestStretchOfTheContext) {
  const QuestionWindow window = window_from(0);
  TokenScores scores = scores_of(window);
  scores[1] = {50, 50};  // the question is no answer, and nor are special tokens
  scores[2] = {40, 40};
  scores[4] = {3, 1};
  scores[5] = {1, 4};
  const auto answer = [&](const AnswerRule& rule = {}) {
    return best_answer(kContext, {&window, 1}, {&scores, 1}, rule);
  };
  EXPECT_EQ(answer(), "two three");
  EXPECT_EQ(answer({.most_tokens = 1}), "three");
  scores[3] = {2, 9};  // it would end before it begins
  EXPECT_EQ(answer(), "one");
  EXPECT_EQ(answer({.best = 1}), "");  // the question alone is looked at
}

TEST(BestAnswer, GoesOverAllWindows) {
  const std::vector<QuestionWindow> windows = {window_from(0), window_from(2)};
  std::vector<TokenScores> scores = {scores_of(windows[0]), scores_of(windows[1])};
  scores[0][3] = {5, 5};
  scores[1][4] = {5, 5};
  EXPECT_EQ(best_answer(kContext, windows, scores, {}), "one");  // of equal ones the first
  scores[1][4] = {5, 5.5};
  EXPECT_EQ(best_answer(kContext, windows, scores, {}), "four");
}

TEST(BestAnswer, MayBeNone) {
  const std::vector<QuestionWindow> windows = {window_from(0), window_from(2)};
  std::vector<TokenScores> scores = {scores_of(windows[0], 6), scores_of(windows[1], 5.5)};
  scores[0][3] = {5, 5.5};
  const AnswerRule rule{.may_be_none = true};
  EXPECT_EQ(best_answer(kContext, windows, scores, {}), "one");
  EXPECT_EQ(best_answer(kContext, windows, scores, rule), "");  // 11 > 10.5
  EXPECT_EQ(best_answer(kContext, windows, scores, {.may_be_none = true, .none_threshold = 0.5}),
            "one");
  scores[1][0] = {5, 5.5};  // the window that is least sure of it decides
  EXPECT_EQ(best_answer(kContext, windows, scores, rule), "one");
}

}  // namespace
}  // namespace megalith::questions
