// SPDX-License-Identifier: Apache-2.0
// A set of questions in SQuAD's JSON and, behind a line "%%", answers to them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/fuzz/fuzz_input.h"
#include "questions/question_scores.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  using questions::AnswerPlaces;
  static const fuzz::ScratchFolder scratch;
  const std::string_view input = fuzz::text_of(data, size), mark = "\n%%\n";
  const size_t end = std::min(input.find(mark), input.size());
  const std::string file = scratch.put("set.json", input.substr(0, end)).string();
  fuzz::accepts([&] {
    const questions::QuestionSet set = questions::read_question_file(file, AnswerPlaces::ignored);
    for (const questions::Question& question : set.questions)
      MEGA_CHECK(question.context < set.contexts.size());
    if (end == input.size()) return;
    const auto said = scratch.put("said.json", input.substr(end + mark.size()));
    const auto scores = questions::answer_scores(set, questions::read_answers(said.string(), set));
    for (const auto& [name, score] : scores.items())
      MEGA_CHECK(score.get<double>() >= 0 && score.get<double>() <= 100);
  });
  fuzz::accepts([&] {
    const questions::QuestionSet set = questions::read_question_file(file, AnswerPlaces::needed);
    for (const questions::Question& question : set.questions)
      for (const questions::Question::Answer& answer : question.answers)
        MEGA_CHECK(!answer.text.empty() && set.contexts.at(question.context)
                                                   .substr(static_cast<size_t>(answer.begin),
                                                           answer.text.size()) == answer.text);
  });
  return 0;
}
