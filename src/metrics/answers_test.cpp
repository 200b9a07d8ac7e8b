// SPDX-License-Identifier: Apache-2.0
#include "metrics/answers.h"

#include <gtest/gtest.h>

#include <vector>

namespace megalith::metrics {
namespace {

using Right = std::vector<std::string>;

TEST(Answers, AreComparedWithoutCasePunctuationAndArticles) {
  EXPECT_EQ(normalized_answer("  The Norman's\t(an) Conquest, of a land! "),
            "normans conquest of land");
  EXPECT_EQ(normalized_answer("there, Anna and thea"), "there anna and thea");
  // Punctuation goes before words are looked at, so a hyphen joins; a dash beyond ASCII parts.
  EXPECT_EQ(normalized_answer("a-b"), "ab");
  EXPECT_EQ(normalized_answer("the–end"), "–end");
  EXPECT_EQ(normalized_answer("ÉTÉ"), "été");
  EXPECT_EQ(normalized_answer("the"), "");
}

TEST(Answers, CountTheBestOfTheRightOnes) {
  EXPECT_EQ(answer_match("the 10th century.", Right{"in the 10th century", "10th century"}), 1);
  EXPECT_EQ(answer_match("century", Right{"in the 10th century", "10th century"}), 0);
  // 1 of 1 word, 1 of 2: 2 * 1 * 0.5 / 1.5
  EXPECT_DOUBLE_EQ(answer_f1("century", Right{"in the 10th century", "10th century"}), 2.0 / 3);
  // A word counts as often as it stands on both sides.
  EXPECT_DOUBLE_EQ(answer_f1("one one one", Right{"one two"}),
                   2 * (1.0 / 3) * 0.5 / (1.0 / 3 + 0.5));
  EXPECT_EQ(answer_f1("", Right{"x"}), 0);
}

TEST(Answers, OfAQuestionWithoutOneIsNothing) {
  EXPECT_EQ(answer_score("", {}).f1, 1);
  EXPECT_EQ(answer_score("the.", {}).exact_match, 1);
  EXPECT_EQ(answer_score("x", {}).f1, 0);
  EXPECT_EQ(answer_score("", Right{"x"}).exact_match, 0);
  EXPECT_DOUBLE_EQ(answer_score("century", Right{"10th century"}).f1, 2.0 / 3);
}

}  // namespace
}  // namespace megalith::metrics
