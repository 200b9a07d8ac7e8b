// SPDX-License-Identifier: Apache-2.0
#include "preferences/preference_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;

std::string fault(std::string_view line) {
  return fault_of([&] { parse_preference_line(line); });
}
/// "prompt|chosen|rejected"
std::string parts(std::string_view line) {
  const PreferenceLine made = parse_preference_line(line);
  const auto &chosen = std::get<PromptAndAnswer>(made.chosen),
             &rejected = std::get<PromptAndAnswer>(made.rejected);
  EXPECT_EQ(chosen.prompt, rejected.prompt);
  return chosen.prompt + "|" + chosen.answer + "|" + rejected.answer;
}

TEST(PreferenceLine, Texts) {
  EXPECT_EQ(parts(R"({"prompt": "p", "chosen": " a", "rejected": " b", "score": 3})"), "p| a| b");
  EXPECT_EQ(parts(R"({"prompt": "", "chosen": "a", "rejected": "b"})"), "|a|b");
}

/// As TRL finds it; but never within a character.
TEST(PreferenceLine, WithoutAPromptTheCommonBeginningIsOne) {
  EXPECT_EQ(parts(R"({"chosen": "The sky is blue.", "rejected": "The sky is green."})"),
            "The sky is| blue.| green.");
  EXPECT_EQ(parts(R"({"chosen": "Q: x\nA: 12", "rejected": "Q: x\nA: 13"})"), "Q: x\nA: 1|2|3");
  // The first bytes of both last characters are the same.
  EXPECT_EQ(parts("{\"chosen\": \"x\u00e9\", \"rejected\": \"x\u00e8\"}"), "x|\xc3\xa9|\xc3\xa8");
  EXPECT_EQ(parts(R"({"chosen": "a", "rejected": "b"})"), "|a|b");
  EXPECT_EQ(fault(R"({"chosen": "ab", "rejected": "a"})"),
            "has an empty answer, field \"rejected\"");
}

TEST(PreferenceLine, Chats) {
  const PreferenceLine made = parse_preference_line(
      R"({"prompt": [{"role": "user", "content": "q"}], )"
      R"("chosen": [{"role": "assistant", "content": "a"}], )"
      R"("rejected": [{"role": "assistant", "content": "b"}, {"role": "user", "content": "?"}, )"
      R"({"role": "assistant", "content": "c"}], "tools": []})");
  const auto &chosen = std::get<ChatExample>(made.chosen),
             &rejected = std::get<ChatExample>(made.rejected);
  EXPECT_THAT(chosen.learned, ElementsAre(false, true));
  EXPECT_THAT(rejected.learned, ElementsAre(false, true, false, true));
  EXPECT_EQ(chosen.messages[0], rejected.messages[0]);
  EXPECT_EQ(chosen.tools, "[]");
}

TEST(PreferenceLine, ConversationsBeginWithTheirPrompt) {
  for (const char* prompt : {"", "\"prompt\": \"q\", "}) {
    const PreferenceLine made = parse_preference_line(
        std::string("{") + prompt +
        R"("chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], )"
        R"("rejected": [{"role": "user", "content": "q"}, )"
        R"({"role": "assistant", "content": "b"}]})");
    EXPECT_THAT(std::get<ChatExample>(made.chosen).learned, ElementsAre(false, true));
    EXPECT_THAT(std::get<ChatExample>(made.rejected).learned, ElementsAre(false, true));
  }
  // An assistant's turn that is the same in both is no answer.
  const PreferenceLine made = parse_preference_line(
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "s"}, )"
      R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}], )"
      R"("rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "s"}, )"
      R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_THAT(std::get<ChatExample>(made.chosen).learned, ElementsAre(false, false, false, true));
}

TEST(PreferenceLine, Faults) {
  EXPECT_EQ(fault(R"({"prompt": "p", "chosen": "a"})"), "has no field \"rejected\"");
  EXPECT_EQ(fault(R"({"prompt": "p", "rejected": "a"})"), "has no field \"chosen\"");
  EXPECT_EQ(fault(R"({"prompt": "p", "chosen": "", "rejected": "a"})"),
            "has an empty answer, field \"chosen\"");
  EXPECT_EQ(fault(R"({"prompt": "p", "chosen": "a", "rejected": "a"})"),
            "has two equal answers, of which neither is preferred");
  EXPECT_EQ(fault(R"({"prompt": "p", "chosen": 1, "rejected": "a"})"),
            "has a field \"chosen\" that is neither a text nor a list of messages");
  EXPECT_EQ(fault(R"({"prompt": {}, "chosen": "b", "rejected": "a"})"),
            "has a field \"prompt\" that is neither a text nor a list of messages");
  EXPECT_EQ(fault(R"({"prompt": "p", "chosen": [], "rejected": "a"})"),
            "has one answer that is a text, and one that is a list of messages");
  EXPECT_EQ(fault(R"({"prompt": [], "chosen": "b", "rejected": "a"})"),
            "has answers that are texts to a prompt that is a list of messages");
  const std::string user = R"([{"role": "user", "content": "q"}])",
                    other = R"([{"role": "user", "content": "r"}])",
                    answer = R"([{"role": "assistant", "content": "a"}])",
                    empty = R"([{"role": "assistant", "content": ""}])";
  const auto line = [](const std::string& prompt, const std::string& chosen,
                       const std::string& rejected) {
    return R"({"prompt": )" + prompt + R"(, "chosen": )" + chosen + R"(, "rejected": )" + rejected +
           "}";
  };
  EXPECT_EQ(fault(line(user, answer, "[]")), "has an empty answer, field \"rejected\"");
  EXPECT_EQ(fault(line(user, empty, answer)), "has an empty answer, message 1");
  EXPECT_EQ(fault(line(user, answer, other)),
            "has a field \"rejected\" in which no assistant's turn follows the prompt");
  EXPECT_EQ(fault(line("null", user, other)),
            "has a field \"chosen\" in which no assistant's turn follows the prompt");
  EXPECT_EQ(fault("[]"), "is not a JSON object");
  EXPECT_EQ(fault("{").substr(0, 11), "is not JSON");
}

}  // namespace
}  // namespace megalith::tune
