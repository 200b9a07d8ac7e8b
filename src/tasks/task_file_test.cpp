// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tasks/document_fixture.h"
#include "tasks/prompts.h"

namespace megalith::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TaskFile : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::string& content) {
    const auto path = std::filesystem::path(::testing::TempDir()) / ("task_file_test_" + name);
    std::ofstream(path) << content;
    return path;
  }
  Task read(const std::string& content) { return read_task_file(put("task.yaml", content)); }
  std::string refused(const std::string& content) {
    try {
      read(content);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

constexpr const char* kChoice = R"(task: mine
dataset_path: json
output_type: multiple_choice
validation_split: validation
doc_to_text: "{{passage}}\nQuestion: {{question}}?\nAnswer:"
doc_to_target: label
doc_to_choice: ["no", "yes"]
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: mcc
metadata: {version: 2.0}
)";

TEST_F(TaskFile, IsReadLikeABuiltInTask) {
  const Task task = read(kChoice);
  EXPECT_EQ(task.name, "mine");
  EXPECT_EQ(task.version, 2);
  ASSERT_EQ(task.metrics.size(), 2U);
  EXPECT_EQ(task.metrics[1].aggregation, Aggregation::mcc);
  const AskedDocument asked =
      Prompts(task, {}, 0, 1)
          .ask(document_of(R"({"passage": "P.", "question": "is it", "label": 1})"));
  ASSERT_EQ(asked.asked.size(), 2U);
  EXPECT_EQ(asked.asked[1].context, "P.\nQuestion: is it?\nAnswer:");
  EXPECT_EQ(asked.asked[1].continuation, " yes");
  EXPECT_EQ(asked.question.target.whole(), 1);
}

TEST_F(TaskFile, IncludesAnother) {
  put("base.yaml", kChoice);
  const Task task = read(
      "include: task_file_test_base.yaml\ntask: other\ndoc_to_choice: {a: \"n\", b: \"y\"}\n"
      "doc_to_text: \"{% if passage %}\n  {{passage}}{% endif %}\n\"\nvalidation_split: null\n"
      "test_split: test\ntarget_delimiter: \"\"\n");
  EXPECT_EQ(task.name, "other");
  EXPECT_EQ(task.splits.evaluated(), "test");
  const AskedDocument asked =
      Prompts(task, {}, 0, 1).ask(document_of(R"({"passage": "P.", "label": 0})"));
  // No white space around blocks is cut, and the template's last line end is kept.
  EXPECT_EQ(asked.asked[0].context, " P. ");
  EXPECT_EQ(asked.asked[0].continuation, "n");
  put("loop.yaml", "include: task_file_test_task.yaml\n");
  EXPECT_THAT(refused("include: task_file_test_loop.yaml\n"), HasSubstr("includes itself"));
}

TEST_F(TaskFile, WritesAndFilters) {
  const Task task = read(R"(task: sums
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: "{{answer.split('####')[-1].strip()}}"
num_fewshot: 2
fewshot_config:
  sampler: first_n
  samples:
    - {question: "1 + 1", answer: "2"}
    - {question: "2 + 2", answer: "#### 4"}
generation_kwargs: {until: ["Q:", "\n"], max_gen_toks: 12, do_sample: false, temperature: 0.0}
filter_list:
  - name: strict
    filter:
      - {function: regex, regex_pattern: 'is (\-?[0-9]+)', group_select: -1}
      - function: take_first
metric_list:
  - {metric: exact_match, ignore_case: true, regexes_to_ignore: [",", "\\$"]}
dataset_kwargs: {data_files: {test: sums.jsonl}}
)");
  EXPECT_EQ(task.data_files.at("test"), "sums.jsonl");
  EXPECT_EQ(task.generation.max_tokens, 12);
  EXPECT_THAT(task.generation.until, ElementsAre("Q:", "\n"));
  ASSERT_EQ(task.filters.size(), 1U);
  EXPECT_EQ(task.filters[0].steps[0].group_select, -1);
  const AskedDocument asked = Prompts(task, task.given_shots, 2, 1)
                                  .ask(document_of(R"({"question": "3 + 3", "answer": "6"})"));
  EXPECT_EQ(asked.asked[0].context, "1 + 1 2\n\n2 + 2 4\n\n3 + 3");
}

TEST_F(TaskFile, RefusesAnExampleThatNamesNoChoice) {
  const std::string base =
      "task: x\noutput_type: multiple_choice\ntest_split: test\n"
      "doc_to_choice: [\"a b\", \"c d\"]\n";
  for (const char* const parts : {"doc_to_text: n\ndoc_to_target: rest\n",     // which context
                                  "doc_to_text: rest\ndoc_to_target: n\n"}) {  // which answer
    const Task task = read(base + parts);
    for (const int number : {2, -1}) {
      const Document wrong = document_of(fmt::format(R"({{"n": {}, "rest": "r"}})", number));
      const Document good = document_of(R"({"n": 1, "rest": "s"})");
      try {
        Prompts(task, {wrong, wrong}, 1, 1).ask(good);
        FAIL();
      } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("sets/x.jsonl:3: an example that names "
                                                        "choice {}, and its choices are 0 to 1",
                                                        number)));
      }
    }
  }
}

TEST_F(TaskFile, BoundsWhatAnchorsAndAliasesMake) {
  EXPECT_THAT(refused("task: &a [*a]\n"), HasSubstr("task.yaml:"));
  std::string many = "a0: &a0 [x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 14; ++i)
    many += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  EXPECT_THAT(refused(many), HasSubstr("more than"));
}

TEST_F(TaskFile, TypesScalarsAsPyYaml) {
  const auto text_of = [&](const std::string& scalar) {
    const Task task = read("test_split: test\ndoc_to_text: " + scalar + "\ndoc_to_target: y\n");
    return task.text.source() != nullptr ? *task.text.source() : "";
  };
  for (const char* const text : {"nan", "inf", "1e3", "1e+3", "infinity", "1.2.3", "-x", "0x", "+"})
    EXPECT_EQ(text_of(text), text) << text;
  for (const char* const number : {"1.5", "1.5e+3", ".5", "-.inf", ".nan", "010", "0x1F", "0b11",
                                   "1_000", "12:30", "12:30.5", "2026-01-31", "yes", "Off", "~"})
    EXPECT_THAT(refused(fmt::format("test_split: test\ndoc_to_text: {}\n", number)),
                HasSubstr(*number == '~' ? "no doc_to_text" : "put it into quotes"))
        << number;
  EXPECT_THAT(refused("test_split: test\nnum_fewshot: 010\n"), HasSubstr("num_fewshot"));
  EXPECT_EQ(read("test_split: test\ndoc_to_text: x\ndoc_to_target: y\nnum_fewshot: +10\n").shots,
            10);
}

TEST_F(TaskFile, RefusesByNameAndLine) {
  const std::string base = kChoice;
  EXPECT_THAT(refused(base + "process_docs: !function utils.process_docs\n"),
              HasSubstr("task.yaml:14: process_docs: !function utils.process_docs calls Python"));
  EXPECT_THAT(
      refused("doc_to_text: !function utils.text\n" + base.substr(base.find("doc_to_target"))),
      HasSubstr("doc_to_text: !function utils.text calls Python"));
  EXPECT_THAT(refused(base + "use_prompt: promptsource\n"), HasSubstr("is not supported"));
  EXPECT_THAT(refused(base + "doc_to_txt: x\n"), HasSubstr("did you mean doc_to_text?"));
  EXPECT_THAT(refused(base + "repeats: 3\n"), HasSubstr("repeats: "));
  EXPECT_THAT(refused(base + "description: \"{{ x\"\n"), HasSubstr("description: "));
  EXPECT_THAT(refused(base + "doc_to_text: a\n"), HasSubstr("given twice"));
  EXPECT_THAT(refused("task: x\ndoc_to_choice: [no, yes]\n"), HasSubstr("put it into quotes"));
  EXPECT_THAT(refused("task: x\nmetric_list: [{metric: bleu}]\n"),
              HasSubstr("the metric bleu is not supported"));
  EXPECT_THAT(refused("task: x\nfilter_list: [{name: f, filter: [{function: majority_vote}]}]\n"),
              HasSubstr("the filter majority_vote is not supported"));
  EXPECT_THAT(refused("task: x\ngeneration_kwargs: {do_sample: true}\n"), HasSubstr("drawn"));
  EXPECT_THAT(refused("task: x\n"), HasSubstr("has no test_split or validation_split"));
  EXPECT_THAT(refused("- a\n"), HasSubstr("is no map"));
  EXPECT_THAT(refused("a: [\n"), HasSubstr("task.yaml:"));
}

}  // namespace
}  // namespace megalith::tasks
