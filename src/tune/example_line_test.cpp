// SPDX-License-Identifier: Apache-2.0
#include "tune/example_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExampleLine parsed(std::string_view line, std::string_view fields = "{input} {output}",
                   bool only = false) {
  return parse_example_line(line, FieldTemplate(fields, "template"), only);
}
std::string fault(std::string_view line) {
  try {
    parsed(line);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}
PromptAndAnswer answer(const ExampleLine& line) { return std::get<PromptAndAnswer>(line); }
ChatExample chat(const ExampleLine& line) { return std::get<ChatExample>(line); }

TEST(ExampleLine, OpenChats) {
  const ChatExample made = chat(parsed(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
          {"role": "assistant", "content": "a", "weight": 0}, {"role": "user", "content": "r"},
          {"role": "assistant", "content": "b", "weight": 1}], "tools": [{"name": "f"}]})"));
  EXPECT_THAT(made.learned, ElementsAre(false, false, false, false, true));
  EXPECT_EQ(made.messages[2], R"({"role":"assistant","content":"a"})");
  EXPECT_EQ(made.tools, R"([{"name":"f"}])");
  const ChatExample calls = chat(parsed(
      R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}]})"));
  EXPECT_THAT(calls.learned, ElementsAre(true));
}

TEST(ExampleLine, NemoChats) {
  const ChatExample made = chat(parsed(
      R"({"system": "s", "mask": "User", "type": null, "conversations": [
          {"from": "User", "value": "q"}, {"from": "Assistant", "value": "a", "label": null}]})"));
  EXPECT_THAT(made.messages,
              ElementsAre(R"({"role":"system","content":"s"})", R"({"role":"user","content":"q"})",
                          R"({"role":"assistant","content":"a"})"));
  EXPECT_THAT(made.learned, ElementsAre(false, false, true));
}

TEST(ExampleLine, PromptAndCompletion) {
  EXPECT_EQ(answer(parsed(R"({"prompt": "2 + 2 =", "completion": " 4"})")).prompt, "2 + 2 =");
  EXPECT_EQ(answer(parsed(R"({"prompt": "2 + 2 =", "completion": " 4"})")).answer, " 4");
  const ChatExample turns = chat(parsed(
      R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
          "completion": [{"role": "assistant", "content": "b"}]})"));
  EXPECT_THAT(turns.learned, ElementsAre(false, false, true));
}

TEST(ExampleLine, Fields) {
  const auto made = answer(parsed(R"({"input": "q", "output": "a", "id": 7})"));
  EXPECT_EQ(made.prompt + "|" + made.answer, "q| a");
  // A template of one's own is of all lines, whatever else they hold.
  const auto own = answer(parsed(R"({"messages": [], "n": 7, "a": true})", "{n}: {a}", true));
  EXPECT_EQ(own.prompt + "|" + own.answer, "7:| true");
}

TEST(ExampleLine, FaultsAreNamed) {
  using Case = std::pair<const char*, const char*>;
  for (const auto& [line, expected] :
       {Case{"x", "is not JSON"},
        Case{"[]", "is not a JSON object"},
        Case{R"({"input": "q"})", R"(has no field "output")"},
        Case{R"({"input": "q", "output": null})", R"(has no field "output")"},
        Case{R"({"ids": [1, 2]})", "has no field \"input\"; examples are texts, and its \"ids\""},
        Case{R"({"input": "q", "output": []})", "that is no text"},
        Case{R"({"input": "q", "output": " "})", "empty answer, field \"output\""},
        Case{R"({"prompt": "q", "completion": ""})", "empty answer, field \"completion\""},
        Case{R"({"prompt": "q"})", "has no field \"completion\""},
        Case{R"({"messages": []})", "at least one message"},
        Case{R"({"messages": [3]})", "message 0 that is not like"},
        Case{R"({"messages": [{"role": "user", "content": "q"}]})", "no assistant's turn"},
        Case{R"({"messages": [{"role": "assistant", "content": ""}]})", "empty answer, message 0"},
        Case{R"({"messages": [{"role": "assistant", "content": "a", "weight": 2}]})", "\"weight\""},
        Case{R"({"messages": [{"role": "user", "content": "q", "weight": 1}]})", "\"weight\""},
        Case{R"({"conversations": [{"from": "Eve", "value": "q"}]})", "\"from\" \"Eve\""},
        Case{R"({"conversations": [{"from": "User"}]})", "has no field \"value\""},
        Case{R"({"conversations": [{"from": "User", "value": "q", "label": "x"}]})", "\"label\""},
        Case{R"({"mask": "Assistant", "conversations": [{"from": "User", "value": "q"}]})",
             "masks \"Assistant\""},
        Case{R"({"type": "TEXT_TO_VALUE", "conversations": []})", "\"type\""}})
    EXPECT_THAT(fault(line), HasSubstr(expected)) << line;
}

}  // namespace
}  // namespace megalith::tune
