// SPDX-License-Identifier: Apache-2.0
#include "questions/question_scores.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "questions/question_file_fixture.h"

namespace megalith::questions {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QuestionScores : public QuestionFiles {
 protected:
  /// The numbers of answers to questions, each in its file's JSON.
  nlohmann::ordered_json scores(const std::string& questions, const std::string& answers) const {
    const QuestionSet set = read(with(questions), AnswerPlaces::ignored);
    return answer_scores(set, read_answers(put("said.json", answers), set));
  }
};

TEST_F(QuestionScores, AreThoseOfTheScript) {
  const auto found = scores(R"(
      {"id": "x", "question": "?", "answers": [{"text": "the Normans"}, {"text": "Normans"}]},
      {"id": "y", "question": "?", "answers": [{"text": "10th century"}]},
      {"id": "z", "question": "?", "answers": [{"text": "a b"}]})",
                            R"({"x": "Normans.", "y": "century", "other": "b"})");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found["exact_match"].get<double>(), 100.0 / 3);
  EXPECT_DOUBLE_EQ(found["f1"].get<double>(), 100 * (1 + 2.0 / 3) / 3);  // nothing for z
}

TEST_F(QuestionScores, AnswersThatAreNothingCountWhereAllHaveOne) {
  const std::string questions = R"(
      {"id": "x", "question": "?", "answers": [{"text": "the"}, {"text": "one"}]},
      {"id": "y", "question": "?", "answers": [{"text": "two"}]},
      {"id": "z", "question": "?", "answers": [{"text": "."}]})";
  const std::string answers = R"({"x": "a", "y": "two", "z": "", "n": "k"})";
  const auto all = scores(questions, answers);
  EXPECT_EQ(all["exact_match"].get<double>(), 100);
  EXPECT_EQ(all["f1"].get<double>(), 100.0 / 3);
  // Of SQuAD 2.0: z has no answer and that is said, x has one.
  const auto some = scores(questions + R"(, {"id": "n", "question": "?", "answers": []})", answers);
  EXPECT_EQ(some["exact_match"].get<double>(), 50);
  EXPECT_EQ(some["f1"].get<double>(), 50);
  EXPECT_EQ(some["answerable_f1"].get<double>(), 200.0 / 3);
  EXPECT_EQ(some["unanswerable_f1"].get<double>(), 0);
}

TEST_F(QuestionScores, AnswersAreTextsByTheirIds) {
  const QuestionSet set = read(with(R"({"id": "x", "question": "?", "answers": [{"text": "x"}]},
                   {"id": "y", "question": "?", "answers": [{"text": "x"}]})"),
                               AnswerPlaces::ignored);
  const auto answers = [&](const std::string& content) {
    return read_answers(put("said.json", content), set);
  };
  EXPECT_THAT(answers(R"({"y": "b", "x": "a"})"), ElementsAre("a", "b"));
  EXPECT_THAT(answers(R"({"y": ""})"), ElementsAre(std::nullopt, ""));
  QuestionSet of_2_0 = set;
  of_2_0.has_unanswerable = true;
  const std::string some = put("some.json", R"({"y": ""})");
  EXPECT_THAT(fault_of([&] { read_answers(some, of_2_0); }),
              HasSubstr("some.json: has no answer to question \"x\""));
  EXPECT_THAT(fault_of([&] { answers("[1]"); }), HasSubstr("said.json: is no object of texts"));
  EXPECT_THAT(fault_of([&] { answers(R"({"x": 1})"); }),
              HasSubstr("said.json: the prediction of \"x\" is no text"));
  EXPECT_THAT(fault_of([&] { answers(R"({"x": "a", "x": "b"})"); }), HasSubstr("twice"));
}

}  // namespace
}  // namespace megalith::questions
