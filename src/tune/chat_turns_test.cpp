// SPDX-License-Identifier: Apache-2.0
#include "tune/chat_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// As Qwen 3: what was thought is shown of the last turn alone.
constexpr std::string_view kForgets =
    "{% for m in messages %}<{{ m.role }}>{% if loop.last and m.thinking %}({{ m.thinking }}){% "
    "endif %}{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

chat::ChatFolder folder(std::string_view source) {
  return chat::ChatFolder::parse({{"chat_template.jinja", std::string(source)}}, "folder");
}
ChatExample example(const std::vector<std::pair<std::string, std::string>>& turns) {
  ChatExample made;
  for (const auto& [role, rest] : turns) {
    made.messages.push_back("{\"role\": \"" + role + "\", " + rest + "}");
    made.learned.push_back(role == "assistant");
  }
  return made;
}
std::vector<std::string> learned(const MarkedText& text) {
  std::vector<std::string> parts;
  for (const Range& range : text.learned)
    parts.push_back(
        text.text.substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.size())));
  return parts;
}

TEST(ChatTurns, AnAssistantsTurnsAreLearnedWithTheTokenThatEndsThem) {
  const auto texts =
      marked_texts(folder(kChatMl), example({{"user", R"("content": "a")"},
                                             {"assistant", R"("content": "b\n c")"},
                                             {"user", R"("content": "b")"},
                                             {"assistant", R"("content": "d")"},
                                             {"user", R"("content": "nobody answers")"}}));
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0].text,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb\n c<|im_end|>\n"
            "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\nd<|im_end|>\n");
  EXPECT_THAT(learned(texts[0]), ElementsAre("b\n c<|im_end|>", "d<|im_end|>"));
}

TEST(ChatTurns, ATurnThatIsNotLearnedIsContext) {
  ChatExample chat = example({{"user", R"("content": "a")"},
                              {"assistant", R"("content": "b")"},
                              {"user", R"("content": "c")"},
                              {"assistant", R"("content": "d")"}});
  chat.learned[1] = false;
  EXPECT_THAT(learned(marked_texts(folder(kChatMl), chat)[0]), ElementsAre("d<|im_end|>"));
}

TEST(ChatTurns, ATemplateThatForgetsMakesOneTextOfEachTurn) {
  const auto texts = marked_texts(folder(kForgets),
                                  example({{"user", R"("content": "a")"},
                                           {"assistant", R"("content": "b", "thinking": "x")"},
                                           {"user", R"("content": "c")"},
                                           {"assistant", R"("content": "d", "thinking": "y")"}}));
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].text, "<user>a</><assistant>(x)b</>");
  EXPECT_THAT(learned(texts[0]), ElementsAre("(x)b</>"));
  EXPECT_EQ(texts[1].text, "<user>a</><assistant>b</><user>c</><assistant>(y)d</>");
  EXPECT_THAT(learned(texts[1]), ElementsAre("(y)d</>"));
}

TEST(ChatTurns, WhatATemplateRefusesIsSaid) {
  const auto fault = [](std::string_view source) -> std::string {
    try {
      marked_texts(folder(source),
                   example({{"user", R"("content": "a")"}, {"assistant", R"("content": "b")"}}));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no fault";
  };
  EXPECT_THROW(marked_texts(folder("x"), example({{"assistant", R"("content": "b")"}})), UserError);
  EXPECT_THAT(fault("{{ raise_exception('no such role') }}"), HasSubstr("no such role"));
  EXPECT_THAT(fault("{% for m in messages %}{{ m.content }}{% endfor %}"
                    "{% if add_generation_prompt %}>{% endif %}"),
              HasSubstr("message 1 otherwise than it asks for it"));
  EXPECT_THAT(fault("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}"
                    "{% endfor %}"),
              HasSubstr("shows nothing of message 1"));
}

/// The day of the run would make other samples of the same file.
TEST(ChatTurns, TheTimeIsAlwaysTheSame) {
  const auto texts = marked_texts(
      folder("{{ strftime_now('%d %b %Y') }}|{% for m in messages %}{{ m.content }}{% endfor %}"),
      example({{"user", R"("content": "a")"}, {"assistant", R"("content": "b")"}}));
  EXPECT_EQ(texts[0].text, "26 Jul 2024|ab");
}

}  // namespace
}  // namespace megalith::tune
