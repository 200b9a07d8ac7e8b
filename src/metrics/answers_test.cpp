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
  EXPECT_EQ(answer_score("", {}, true).f1, 1);
  EXPECT_EQ(answer_score("the.", {}, true).exact_match, 1);
  EXPECT_EQ(answer_score("x", {}, true).f1, 0);
  EXPECT_EQ(answer_score("", Right{"x"}, true).exact_match, 0);
  EXPECT_DOUBLE_EQ(answer_score("century", Right{"10th century"}, true).f1, 2.0 / 3);
}

TEST(Answers, ThatAreNothingDoNotCountWhereTheyMayBeNone) {
  EXPECT_EQ(answer_score("", Right{"the", "x"}, true).exact_match, 0);
  EXPECT_EQ(answer_score("x", Right{"the", "x"}, true).f1, 1);
  EXPECT_EQ(answer_score("", Right{"the", "."}, true).exact_match, 1);
  EXPECT_EQ(answer_score("", Right{"the", "."}, true).f1, 1);
  EXPECT_EQ(answer_score("x", Right{"the"}, true).f1, 0);
  // Version 1.1's script compares them as they are, and no word is no word in common.
  EXPECT_EQ(answer_score("a", Right{"the", "x"}, false).exact_match, 1);
  EXPECT_EQ(answer_score("a", Right{"the", "x"}, false).f1, 0);
}

TEST(Answers, MeansRoundAsTheScriptsDo) {
  const double right_twice[] = {1, 1, 0};
  EXPECT_EQ(percent_of(right_twice), 200.0 / 3);
  EXPECT_NE(percent_of(right_twice), 100 * (2.0 / 3));
}

}  // namespace
}  // namespace megalith::metrics
