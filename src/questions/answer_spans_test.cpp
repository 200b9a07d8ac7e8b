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

/// From the outputs of all windows.
std::string answer_of(std::span<const QuestionWindow> windows, std::span<const TokenScores> scores,
                      const AnswerRule& rule = {}) {
  std::vector<WindowAnswer> said;
  for (size_t i = 0; i < windows.size(); ++i)
    said.push_back(window_answer(windows[i], scores[i], rule));
  return best_answer(kContext, said, rule);
}

TEST(BestAnswer, IsTheLikeliestStretchOfTheContext) {
  const QuestionWindow window = window_from(0);
  TokenScores scores = scores_of(window);
  scores[1] = {50, 50};  // the question is no answer, and nor are special tokens
  scores[2] = {40, 40};
  scores[4] = {3, 1};
  scores[5] = {1, 4};
  const auto answer = [&](const AnswerRule& rule = {}) {
    return answer_of({&window, 1}, {&scores, 1}, rule);
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
  EXPECT_EQ(answer_of(windows, scores), "one");  // of equal ones the first
  scores[1][4] = {5, 5.5};
  EXPECT_EQ(answer_of(windows, scores), "four");
}

TEST(BestAnswer, OfAWindowIsAFewNumbers) {
  const QuestionWindow window = window_from(2);
  TokenScores scores = scores_of(window, 1.5);
  scores[3] = {2, 1};
  scores[4] = {1, 2};
  const WindowAnswer said = window_answer(window, scores, {});
  EXPECT_EQ(said.score, 4);
  EXPECT_EQ(said.place, (text::TextRange{8, 18}));
  EXPECT_EQ(said.none, 3);
  QuestionWindow bare = window;  // what validations keep of it
  bare.ids.clear();
  EXPECT_EQ(window_answer(bare, scores, {}).place, said.place);
  const WindowAnswer nothing = window_answer(window, scores, {.best = 1, .most_tokens = 1});
  EXPECT_EQ(nothing.score, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(best_answer(kContext, {&nothing, 1}, {}), "");
  EXPECT_EQ(best_answer(kContext, {&nothing, 1}, {.may_be_none = true}), "");
}

TEST(BestAnswer, MayBeNone) {
  const std::vector<QuestionWindow> windows = {window_from(0), window_from(2)};
  std::vector<TokenScores> scores = {scores_of(windows[0], 6), scores_of(windows[1], 5.5)};
  scores[0][3] = {5, 5.5};
  const AnswerRule rule{.may_be_none = true};
  EXPECT_EQ(answer_of(windows, scores), "one");
  EXPECT_EQ(answer_of(windows, scores, rule), "");  // 11 > 10.5
  EXPECT_EQ(answer_of(windows, scores, {.may_be_none = true, .none_threshold = 0.5}), "one");
  scores[1][0] = {5, 5.5};  // the window that is least sure of it decides
  EXPECT_EQ(answer_of(windows, scores, rule), "one");
}

}  // namespace
}  // namespace megalith::questions
