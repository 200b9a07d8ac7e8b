// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "chat/chat_fixture.h"

namespace megalith::chat {
namespace {

using testing::HasSubstr;

class ChatFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "megalith-chat-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, std::string_view content) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << content;
  }
  std::string text(std::string_view messages = R"([{"role": "user", "content": "Hi"}])",
                   bool add_generation_prompt = true) {
    try {
      const auto conversation = Conversation::parse(messages, "messages.json");
      return ChatFolder::load(folder_).render(conversation, add_generation_prompt, fixed_time());
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::filesystem::path folder_;
};

constexpr std::string_view kShow =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}>{% endif %}";

TEST_F(ChatFolderTest, TheFileWinsOverTheConfiguration) {
  const auto config = [](std::string_view more) {
    return R"({"bos_token": {"content": "<s>"}, "eos_token": null)" + std::string(more) + "}";
  };
  put("tokenizer_config.json",
      config(R"(, "chat_template": "old {{ bos_token }}{{ eos_token }}")"));
  EXPECT_EQ(text(), "old <s>");
  put("chat_template.jinja", kShow);
  EXPECT_EQ(text(), "<s>user:Hi;>");
  EXPECT_EQ(text(R"([{"role": "user", "content": "Hi"}])", false), "<s>user:Hi;");
}

TEST_F(ChatFolderTest, TheMapOfSpecialTokensCountsUnlessAddedTokensAreListed) {
  put("special_tokens_map.json", R"({"bos_token": "<b>", "eos_token": {"content": "<c>"}})");
  put("chat_template.jinja",
      "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token is defined }}");
  put("tokenizer_config.json", R"({"bos_token": "<a>", "unk_token": "<u>"})");
  EXPECT_EQ(text(), "<b><c><u>False");
  put("tokenizer_config.json", R"({"bos_token": "<a>", "added_tokens_decoder": {}})");
  EXPECT_EQ(text(), "<a>False");
}

TEST_F(ChatFolderTest, AModelNamesFurtherTokens) {
  put("tokenizer_config.json", R"({"image_token": "<i>", "add_bos_token": true, "bos_token": null,
                                   "extra_special_tokens": {"audio_token": "<a>"}})");
  put("chat_template.jinja",
      "{{ image_token }}{{ audio_token }}{{ add_bos_token is defined }}{{ bos_token is defined }}");
  EXPECT_EQ(text(), "<i><a>FalseFalse");
}

TEST_F(ChatFolderTest, NamedTemplates) {
  constexpr std::string_view kTools =
      R"({"messages": [{"role": "user"}], "tools": [{"name": "f"}]})";
  put("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "D"},
                                                     {"name": "tool_use", "template": "T"}]})");
  EXPECT_EQ(text(), "D");
  EXPECT_EQ(text(kTools), "T");
  put("additional_chat_templates/tool_use.jinja", "U{{ tools[0].name }}");
  EXPECT_EQ(text(kTools), "Uf");
  EXPECT_THAT(text(), HasSubstr("none is called \"default\""));
  put("chat_template.jinja", "E");
  EXPECT_EQ(text(), "E");
}

TEST_F(ChatFolderTest, WhatIsNoTemplateIsNamed) {
  EXPECT_THAT(text(), HasSubstr("there is no chat template"));
  put("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(text(), HasSubstr("chat_template is neither a text nor a list"));
  put("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(text(), HasSubstr("without \"name\" and \"template\""));
  put("tokenizer_config.json", R"({"bos_token": 3})");
  EXPECT_THAT(text(), HasSubstr("\"bos_token\" is neither a text nor an object"));
  put("tokenizer_config.json", "[]");
  EXPECT_THAT(text(), HasSubstr("is not a JSON object"));
  put("tokenizer_config.json", "{");
  EXPECT_THAT(text(), HasSubstr("is not JSON"));
  put("tokenizer_config.json", R"({"chat_template": "{{"})");
  EXPECT_THAT(text(), HasSubstr("tokenizer_config.json: chat_template:1:1: the tag has no end"));
}

TEST_F(ChatFolderTest, MessagesAsTransformersHandsThemOn) {
  put("chat_template.jinja", "{{ messages[0]|tojson }} {{ tools }} {{ documents }}{{ x }}");
  EXPECT_EQ(text(R"([{"role": "a", "content": null, "n": {"x": null}}])"),
            R"({"role": "a", "n": {"x": null}} None None)");
  EXPECT_EQ(
      text(R"([{"role": "a", "reasoning": "r"}])"),
      R"({"thinking": "r", "role": "a", "reasoning": "r", "reasoning_content": "r"} None None)");
  EXPECT_EQ(text(R"([{"role": "a", "thinking": "t", "reasoning_content": "c"}])"),
            R"({"thinking": "t", "role": "a", "reasoning_content": "c"} None None)");
  EXPECT_EQ(text(R"({"messages": [{"role": "a"}], "tools": [], "documents": [{"t": 1}],
                     "chat_template_kwargs": {"x": true}})"),
            R"({"role": "a"} [] [{'t': 1}]True)");
}

TEST_F(ChatFolderTest, WhatAreNoMessagesIsRefused) {
  put("chat_template.jinja", "x");
  for (const auto& [json, expected] : std::initializer_list<Case>{
           {"", "is not JSON"},
           {"3", "neither a list of messages nor an object"},
           {"[]", "no list with at least one message"},
           {"{}", "no list with at least one message"},
           {"[3]", "message 0 is not an object"},
           {R"([{"role": "a"}, {"role": 3}])", "message 1 has no \"role\" that is a text"},
           {R"({"messages": [{"role": "a"}], "tool": []})", "the key \"tool\" is not known"},
           {R"({"messages": [{"role": "a"}], "tools": [3]})", "\"tools\" is not a list of objects"},
           {R"({"messages": [{"role": "a"}], "chat_template_kwargs": []})", "is not an object"},
           {R"([{"role": "a", "role": "b"}])", "twice"},
           {R"([{"role": "a", "n": 18446744073709551615}])", "beyond 64 bits"},
           {R"([{"role": "a", "n": 123456789012345678901234567890}])", "beyond 64 bits"},
           {R"([{"role": "\ud800"}])", "is not JSON"}})
    EXPECT_THAT(text(json), testing::AllOf(HasSubstr("messages.json"), HasSubstr(expected)))
        << json;
  EXPECT_THAT(text(std::string(1000, '[')), HasSubstr("nested too deeply"));
  std::string many = R"([{"role": "a", "content": [0)";
  for (size_t i = 0; i < kMostMessageValues; ++i) many += ",0";
  EXPECT_THAT(text(many + "]}]"), HasSubstr("messages.json: more than 1000000 values"));
  // Within a text nothing counts.
  const std::string long_text(kMostMessageValues + 1, ',');
  EXPECT_EQ(text(R"([{"role": "\"\\", "content": ")" + long_text + R"("}])"), "x");
}

}  // namespace
}  // namespace megalith::chat
