// SPDX-License-Identifier: Apache-2.0
#include "tasks/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "chat_values/python_text.h"
#include "tasks/built_in.h"
#include "tasks/data_files.h"
#include "tasks/document_fixture.h"

namespace megalith::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Task named(const std::string& name, Profile profile = Profile::lm_eval) {
  return find_tasks({name}, profile).tasks[0];
}

/// Documents as the task makes them of lines.
std::vector<Document> documents(const Task& task, std::initializer_list<std::string_view> lines) {
  std::vector<Document> rows;
  for (const std::string_view line : lines) rows.push_back(document_of(line));
  return prepared(task, std::move(rows));
}

std::vector<std::string> texts_of(const AskedDocument& asked) {
  std::vector<std::string> texts;
  for (const Asked& one : asked.asked) texts.push_back(one.context + "|" + one.continuation);
  return texts;
}

TEST(Prompts, OfEachKindOfTask) {
  const Task lambada = named("lambada_openai");
  const auto text = documents(lambada, {R"({"text": "The end is near"})"});
  EXPECT_THAT(texts_of(Prompts(lambada, {}, 0, 1).ask(text[0])), ElementsAre("The end is| near"));

  const Task piqa = named("piqa");
  const auto goal =
      documents(piqa, {R"({"goal": "Cut.", "sol1": "it's", "sol2": "say \"no\"", "label": 1})"});
  EXPECT_THAT(texts_of(Prompts(piqa, {}, 0, 1).ask(goal[0])),
              ElementsAre("Question: Cut.\nAnswer:| it's", "Question: Cut.\nAnswer:| say \"no\""));

  const Task winogrande = named("winogrande");
  const auto blank = documents(
      winogrande, {R"({"sentence": "A _ c d.", "option1": "x", "option2": "y", "answer": "2"})"});
  EXPECT_THAT(texts_of(Prompts(winogrande, {}, 0, 1).ask(blank[0])),
              ElementsAre("A x| c d.", "A y| c d."));

  const Task triviaqa = named("triviaqa");
  const auto question =
      documents(triviaqa, {R"({"question": "Who", "answer": {"aliases": ["A", "it's"]}})"});
  const AskedDocument asked = Prompts(triviaqa, {}, 0, 1).ask(question[0]);
  EXPECT_THAT(texts_of(asked), ElementsAre("Question: Who?\nAnswer:|"));
  ASSERT_NE(asked.question.target.sequence(), nullptr);
  EXPECT_EQ(asked.question.target.sequence()->items[1].bytes(), "it's");
}

TEST(Prompts, ExamplesComeFirstWithTheirAnswers) {
  const Task mmlu = named("mmlu_anatomy");
  const std::string_view line =
      R"({"question": " Which? ", "subject": "anatomy", "choices": ["w", "x", "y", "z"],
          "answer": 2})";
  const auto pool = documents(mmlu, {line, line, line});
  const std::string one = "Which?\nA. w\nB. x\nC. y\nD. z\nAnswer:";
  EXPECT_EQ(Prompts(mmlu, pool, 2, 1).ask(pool[0]).asked[3].context,
            "The following are multiple choice questions (with answers) about anatomy.\n\n" + one +
                " C\n\n" + one + " C\n\n" + one);
  const Task winogrande = named("winogrande");
  const auto blanks = documents(
      winogrande, {R"({"sentence": "A _ c.", "option1": "x", "option2": "y", "answer": "2"})",
                   R"({"sentence": "B _ d.", "option1": "v", "option2": "w", "answer": "1"})"});
  // Of this task's two splits neither is named, so the document itself is left out.
  EXPECT_EQ(Prompts(winogrande, blanks, 1, 1).ask(blanks[0]).asked[0].context, "B v d.\n\nA x");
}

/// random.Random(1234).sample of 60 documents, three for each question in turn.
TEST(Prompts, ExamplesAreThoseThatPythonDraws) {
  Task task = named("arc_easy");
  std::vector<Document> pool;
  for (int i = 0; i < 60; ++i) {
    pool.push_back(document_of(fmt::format(
        R"({{"question": "Q{}", "choices": {{"text": ["t"], "label": ["A"]}}, "answerKey": "A"}})",
        i)));
  }
  pool = prepared(task, std::move(pool));
  Prompts prompts(task, pool, 3, 1234);
  metrics::PythonRandom random(1234);
  for (int round = 0; round < 3; ++round) {
    std::string expected;
    for (const uint32_t i : random.sample(60, 3))
      expected += fmt::format("Question: Q{}\nAnswer: t\n\n", i);
    EXPECT_EQ(prompts.ask(pool[0]).asked[0].context, expected + "Question: Q0\nAnswer:");
  }
  EXPECT_THROW(Prompts(task, pool, 61, 1234), UserError);
}

TEST(Prompts, OfNemo) {
  const Task race = named("race", Profile::nemo);
  const auto article = documents(
      race,
      {R"({"article": "T.", "question": "Q?", "options": ["a", "b", "c", "d"], "answer": "C"})"});
  EXPECT_THAT(texts_of(Prompts(race, {}, 0, 1).ask(article[0])),
              ElementsAre("Article: T.\n\nQuestion: Q?\nAnswer:| a",
                          "Article: T.\n\nQuestion: Q?\nAnswer:| b",
                          "Article: T.\n\nQuestion: Q?\nAnswer:| c",
                          "Article: T.\n\nQuestion: Q?\nAnswer:| d", "Answer:| a", "Answer:| b",
                          "Answer:| c", "Answer:| d"));
  const Task lambada = named("lambada", Profile::nemo);
  const auto text = documents(lambada, {R"({"text": "“The” end is near"})"});
  EXPECT_THAT(texts_of(Prompts(lambada, {}, 0, 1).ask(text[0])),
              ElementsAre("\n\"The\" end is| near"));
}

/// Hashes of documents are those of lm-eval, which reads a file as a table.
TEST(Documents, HaveTheirFieldsInOneOrder) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "prompts_test_documents.jsonl";
  std::ofstream(file) << R"({"a": 1, "b": {"y": 2, "x": 3}})"
                      << "\n\n"
                      << R"({"c": "u", "a": 4})"
                      << "\n";
  const std::vector<Document> found = read_documents(file);
  ASSERT_EQ(found.size(), 2U);
  chat::Budget budget = document_budget();
  EXPECT_EQ(chat::repr(found[0].record, budget), "{'a': 1, 'b': {'y': 2, 'x': 3}}");
  EXPECT_EQ(chat::repr(found[1].record, budget), "{'a': 4, 'c': 'u'}");
}

TEST(Prompts, SayWhatADocumentLacks) {
  const Task piqa = named("piqa");
  try {
    Prompts(piqa, {}, 0, 1).ask(document_of(R"({"goal": "x", "sol1": "y", "label": 0})"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sets/x.jsonl:3: piqa doc_to_choice:1:"));
    EXPECT_THAT(error.what(), HasSubstr("'sol2' is undefined"));
  }
  try {
    find_tasks({"helaswag"}, Profile::lm_eval);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean hellaswag?"));
  }
}

TEST(Tasks, GroupsOfMmluHaveAllTheirSubjects) {
  const TaskList list = find_tasks({"mmlu", "mmlu_anatomy"}, Profile::lm_eval);
  EXPECT_EQ(list.tasks.size(), 57U);
  ASSERT_EQ(list.groups.size(), 5U);
  EXPECT_EQ(list.groups[4].name, "mmlu");
  EXPECT_EQ(list.groups[4].tasks.size(), 57U);
  EXPECT_THROW(find_tasks({"mmlu"}, Profile::nemo), UserError);
}

}  // namespace
}  // namespace megalith::tasks
