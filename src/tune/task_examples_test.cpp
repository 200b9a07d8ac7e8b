// SPDX-License-Identifier: Apache-2.0
#include "tune/task_examples.h"

#include <gmock/gmock.h>

#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class TaskExamples : public FileTest {
 protected:
  /// Of the first tasks of three: with templates, and one without.
  std::vector<Example> read(std::string_view content, size_t first = 0, size_t count = 3,
                            int64_t most_tokens = 100) {
    const auto chats = chat::ChatFolder::parse({}, "folder");
    const auto form = [&](const char* text, int32_t virtual_id) {
      return ExampleForm{
          .tokenizer = tokenizer_,
          .chats = chats,
          .end_id = kEnd,
          .fields = FieldTemplate(*text != 0 ? text : "{input} {output}", "t"),
          .only_fields = *text != 0,
          .before = {virtual_id},
          .task = virtual_id - 300,
      };
    };
    const ExampleForm sum = form("{x}+{y}={z}", 300), echo = form("{x} {y}", 301),
                      open = form("", 302);
    std::vector<TaskForm> all = {{"sum", sum}, {"echo", echo}, {"open", open}};
    counts_ = {};
    const std::span<TaskForm> tasks = std::span(all).subspan(first, count);
    auto examples = read_task_examples({put("a.jsonl", content)}, tasks,
                                       {"tune.data", most_tokens, config::Overlong::drop}, counts_);
    of_each_.clear();
    for (const TaskForm& task : tasks) of_each_.push_back(task.examples);
    return examples;
  }
  std::string fault(std::string_view content, size_t first = 0, size_t count = 3) {
    return fault_of([&] { read(content, first, count); });
  }

  std::vector<int64_t> of_each_;
};

TEST_F(TaskExamples, EachIsBehindTheTokensOfItsTask) {
  const auto examples = read(R"({"taskname": "echo", "x": "q", "y": "r"})"
                             "\n"
                             R"({"taskname": "sum", "x": 1, "y": 2, "z": 3})"
                             "\n\n"
                             R"({"prompt": "s", "completion": "t", "taskname": "open"})"
                             "\n"
                             R"({"x": "u", "y": "v", "taskname": "echo"})");
  ASSERT_EQ(examples.size(), 4u);
  EXPECT_THAT(examples[0].ids, ElementsAre(301, 'q', ' ', 'r', kEnd));
  EXPECT_THAT(examples[0].learned, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(examples[1].ids, ElementsAre(300, '1', '+', '2', '=', '3', kEnd));
  EXPECT_THAT(examples[2].ids, ElementsAre(302, 's', 't', kEnd));
  EXPECT_THAT(examples[3].ids, ElementsAre(301, 'u', ' ', 'v', kEnd));
  EXPECT_THAT(of_each_, ElementsAre(1, 2, 1));
  EXPECT_EQ(counts_.lines, 4);
  for (const Example& example : examples) EXPECT_EQ(example.task, example.ids.front() - 300);
}

/// Those that are too long are left out of a task's number too.
TEST_F(TaskExamples, CountsWhatWasKept) {
  EXPECT_EQ(read(R"({"taskname": "echo", "x": "q", "y": "r"})"
                 "\n"
                 R"({"taskname": "echo", "x": "qqqqqqq", "y": "r"})"
                 "\n"
                 R"({"taskname": "open", "prompt": "s", "completion": "t"})",
                 0, 3, 5)
                .size(),
            2u);
  EXPECT_THAT(of_each_, ElementsAre(0, 1, 1));
  EXPECT_EQ(counts_.dropped, 1);
}

/// A file of one task need not say which, and none of another is in it.
TEST_F(TaskExamples, OfOneTaskLinesNeedNoName) {
  EXPECT_EQ(read(R"({"x": "q", "y": "r", "note": "s"})"
                 "\n"
                 R"({"taskname": "echo", "x": "q", "y": "r"})",
                 1, 1)
                .size(),
            2u);
  EXPECT_THAT(fault(R"({"x": "q", "y": "r", "taskname": "sum"})", 1, 1),
              EndsWith("a.jsonl:1: has an unknown taskname \"sum\"; known here: echo"));
}

TEST_F(TaskExamples, FaultsNameFileAndLine) {
  const std::string good = "{\"taskname\": \"echo\", \"x\": \"q\", \"y\": \"r\"}\n";
  EXPECT_THAT(fault(good + R"({"x": "q", "y": "r"})"),
              EndsWith("a.jsonl:2: has no field \"taskname\""));
  EXPECT_THAT(fault(good + R"({"taskname": "Echo", "x": "q", "y": "r"})"),
              EndsWith("a.jsonl:2: has an unknown taskname \"Echo\"; known here: sum, echo, open"));
  EXPECT_THAT(fault(good + R"({"taskname": ["echo"], "x": "q", "y": "r"})"),
              HasSubstr("a.jsonl:2: has a field \"taskname\" that is no text"));
  EXPECT_THAT(fault(good + R"({"taskname": "echo", "x": "q", "y": "r", "z": "s"})"),
              HasSubstr("a.jsonl:2: has a field \"z\", which the template of task \"echo\" has no "
                        "place for"));
  EXPECT_THAT(fault(good + R"({"taskname": "sum", "x": "q", "y": "r"})"),
              HasSubstr("a.jsonl:2: has no field \"z\""));
  EXPECT_THAT(fault("\n"), HasSubstr("tune.data: no example that fits"));
}

}  // namespace
}  // namespace megalith::tune
