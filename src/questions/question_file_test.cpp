// SPDX-License-Identifier: Apache-2.0
#include "questions/question_file.h"

#include <gmock/gmock.h>

#include "questions/question_file_fixture.h"

namespace megalith::questions {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QuestionFile : public QuestionFiles {};

TEST_F(QuestionFile, CountsCharactersAndKnowsWhatHasNoAnswer) {
  const QuestionSet one =
      read(with(R"({"id": "1", "question": "?", "answers": [{"text": "x", "answer_start": 5}]})"));
  EXPECT_EQ(one.questions.at(0).answers.at(0).begin, 6);  // of bytes
  EXPECT_FALSE(one.has_unanswerable);
  const QuestionSet two = read(with(
      R"({"id": "1", "question": "?", "answers": [], "is_impossible": true}, {"id": "2",
          "question": "?", "answers": [{"text": "caf\u00e9", "answer_start": 0}]})"));
  EXPECT_TRUE(two.has_unanswerable);
  EXPECT_THAT(two.questions.at(1).answer_texts(), ElementsAre("caf\u00e9"));
}

TEST_F(QuestionFile, PlacesMayNotMatter) {
  const QuestionSet set = read(with(R"({"id": "1", "question": "?", "answers": [{"text": "x"},
      {"text": "", "answer_start": 0}, {"text": "y", "answer_start": -1}]})"),
                               AnswerPlaces::ignored);
  EXPECT_THAT(set.questions.at(0).answer_texts(), ElementsAre("x", "", "y"));
}

TEST_F(QuestionFile, FaultsNameTheQuestion) {
  const auto fault = [&](const std::string& content) { return fault_of([&] { read(content); }); };
  EXPECT_THAT(fault("[]"), HasSubstr("set.json: there is no list \"data\""));
  EXPECT_THAT(fault(with("")), HasSubstr("has no questions"));
  EXPECT_THAT(fault(with(R"({"id": "7", "answers": []})")),
              HasSubstr("question \"7\": there is no text \"question\""));
  EXPECT_THAT(fault(with(R"({"id": "7", "question": "?"})")), HasSubstr("no list \"answers\""));
  const auto answer = [&](const std::string& of) {
    return fault(with(R"({"id": "7", "question": "?", "answers": [)" + of + "]}"));
  };
  EXPECT_THAT(answer(R"({"text": "x", "answer_start": 4})"),
              HasSubstr("question \"7\": the answer \"x\" does not stand at character 4"));
  EXPECT_THAT(answer(R"({"text": "x", "answer_start": 40})"), HasSubstr("character 40"));
  EXPECT_THAT(answer(R"({"text": "", "answer_start": 0})"), HasSubstr("does not stand"));
  EXPECT_THAT(answer(R"({"text": "x"})"), HasSubstr("\"answer_start\" is no number"));
  EXPECT_THAT(answer(R"({"text": "x", "answer_start": -1})"), HasSubstr("\"answer_start\""));
  const std::string same = R"({"id": "7", "question": "?", "answers": []})";
  EXPECT_THAT(fault(with(same + "," + same)), HasSubstr("question \"7\" comes twice"));
  EXPECT_THAT(fault(with(R"({"id": "7", "question": "?", "is_impossible": true, "answers":
                            [{"text": "x", "answer_start": 5}]})")),
              HasSubstr("question \"7\": is impossible and has an answer"));
  EXPECT_THAT(fault(with(R"({"id": "7", "question": "?", "is_impossible": 1, "answers": []})")),
              HasSubstr("\"is_impossible\""));
}

}  // namespace
}  // namespace megalith::questions
