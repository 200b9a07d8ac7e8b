// SPDX-License-Identifier: Apache-2.0
#include "protocols/chat_completion.h"

#include <gmock/gmock.h>

#include "protocols/protocols_fixture.h"

namespace megalith::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json chat_with(const Json& changes) {
  Json body{{"model", "small"}, {"messages", {{{"role", "user"}, {"content", "ab"}}}}};
  if (!changes.is_null()) body.update(changes);
  return body;
}

std::string chat_fault(const Json& changes, const ServedModel& model = small_model()) {
  try {
    prepare_chat_completion(chat_with(changes), model);
    return "no fault";
  } catch (const ApiError& error) {
    return error.param() + ": " + error.what();
  }
}

TEST(Chat, GoesThroughTheTemplate) {
  const Prepared made = prepare_chat_completion(chat_with({}), small_model());
  EXPECT_THAT(made.sequences.at(0).prompt, ElementsAre(5, 2, 3));  // "uabc"
  EXPECT_EQ(made.sequences[0].options.max_new_tokens, 29);         // what there is room for
  const Prepared parts = prepare_chat_completion(
      chat_with({{"messages",
                  {{{"role", "user"},
                    {"content",
                     {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}},
                 {"add_generation_prompt", false},
                 {"max_tokens", 3}}),
      small_model());
  EXPECT_THAT(parts.sequences.at(0).prompt, ElementsAre(5, 2));
  EXPECT_EQ(parts.sequences[0].options.max_new_tokens, 3);
}

TEST(Chat, GivesToolsToTemplatesThatTakeThem) {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "b"}}}}});
  const Prepared made = prepare_chat_completion(chat_with({{"tools", tools}}), small_model());
  EXPECT_THAT(made.sequences.at(0).prompt, ElementsAre(5, 2, 1, 3));
  const chat::ChatFolder plain =
      chat::ChatFolder::parse({{"chat_template.jinja", "{{ messages[0].content }}"}}, "plain");
  ServedModel model = small_model();
  model.chat = &plain;
  EXPECT_THAT(chat_fault({{"tools", tools}}, model), HasSubstr("takes no tools"));
  EXPECT_EQ(chat_fault({{"tools", tools}, {"tool_choice", "none"}}, model), "no fault");
}

TEST(Chat, NamesWhatIsWrong) {
  const auto message = [](const Json& one) { return Json{{"messages", Json::array({one})}}; };
  EXPECT_THAT(chat_fault({{"messages", Json::array()}}), HasSubstr("messages: "));
  EXPECT_THAT(chat_fault({{"messages", "hi"}}), HasSubstr("messages: "));
  EXPECT_THAT(chat_fault(message(5)), HasSubstr("messages[0]: "));
  EXPECT_THAT(chat_fault(message({{"content", "x"}})), HasSubstr("messages[0].role: "));
  EXPECT_THAT(chat_fault(message({{"role", "king"}})), HasSubstr("messages[0].role: "));
  EXPECT_THAT(chat_fault(message({{"role", "user"}, {"content", 5}})),
              HasSubstr("messages[0].content: "));
  EXPECT_THAT(chat_fault(message(
                  {{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", "x"}}}}})),
              HasSubstr("no text"));
  EXPECT_THAT(chat_fault({{"top_logprobs", 3}}), HasSubstr("top_logprobs: "));
  EXPECT_THAT(chat_fault({{"logprobs", true}, {"top_logprobs", 21}}), HasSubstr("top_logprobs: "));
  EXPECT_THAT(chat_fault({{"max_completion_tokens", 0}}), HasSubstr("max_completion_tokens: "));
  EXPECT_THAT(chat_fault({{"max_tokens", 30}}), HasSubstr("maximum context length is 32"));
  EXPECT_THAT(chat_fault({{"chat_template", "x"}}), HasSubstr("chat_template: "));
  ServedModel model = small_model();
  model.chat = nullptr;
  EXPECT_THAT(chat_fault({}, model), HasSubstr("no chat template"));
}

TEST(ChatReply, IsOpenAis) {
  const Prepared made =
      prepare_chat_completion(chat_with({{"logprobs", true}, {"top_logprobs", 1}}), small_model());
  Written written;
  written.result = generated("a", {0}, {-0.5}, "stop");
  written.tokens = {{{0, -0.5}, {{6, -0.25}}, "a"}};
  const Json body = Json::parse(made.reply->finish({written}).text);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"],
            Json({{"role", "assistant"}, {"content", "a"}, {"refusal", nullptr}}));
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"][0],
            Json({{"token", "a"},
                  {"logprob", -0.5},
                  {"bytes", {97}},
                  {"top_logprobs",
                   {{{"token", "\u00e9"}, {"logprob", -0.25}, {"bytes", {0xC3, 0xA9}}}}}}));
}

TEST(ChatReply, TellsTheBestOfASearch) {
  const Prepared made =
      prepare_chat_completion(chat_with({{"use_beam_search", true}, {"n", 2}}), small_model());
  ASSERT_EQ(made.sequences.size(), 1u);
  EXPECT_EQ(made.sequences[0].options.beams, 2);
  Written written;
  written.result = generated("a", {0}, {-0.5}, "stop");
  written.result.others = {generated("bc", {1, 3}, {-0.5, -1}, "length")};
  const Json body = Json::parse(made.reply->finish({written}).text);
  ASSERT_EQ(body["choices"].size(), 2u);
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_EQ(body["choices"][1]["message"]["content"], "bc");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_THAT(chat_fault({{"best_of", 2}}), HasSubstr("best_of"));
}

TEST(ChatReply, StreamsTheRoleThePiecesAndTheReason) {
  const Prepared made = prepare_chat_completion(chat_with({{"stream", true}}), small_model());
  EXPECT_THAT(made.reply->begin(), HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  EXPECT_THAT(made.reply->on_token(0, {{0, -1}, {}, "a"}), HasSubstr(R"("delta":{"content":"a"})"));
  Written written;
  written.result = generated("a", {0}, {-1}, "length");
  EXPECT_THAT(made.reply->on_end(0, written),
              HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"length")"));
  EXPECT_EQ(made.reply->finish({written}).text, "data: [DONE]\n\n");
}

}  // namespace
}  // namespace megalith::protocols
