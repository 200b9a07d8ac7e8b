// SPDX-License-Identifier: Apache-2.0
#include "protocols/tool_calls.h"

#include <gmock/gmock.h>

#include "protocols/chat_completion.h"
#include "protocols/protocols_fixture.h"

namespace megalith::protocols {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Each character of ASCII that can be seen is a token, and the line break is one.
const text::Tokenizer& ascii_tokenizer() {
  static const text::Tokenizer tokenizer = [] {
    Json vocab = Json::object();
    for (char c = ' '; c <= '~'; ++c) vocab[std::string(1, c)] = c - ' ';
    vocab["\n"] = 95;
    return text::Tokenizer::parse(text_of_json({{"version", "1.0"},
                                                {"truncation", nullptr},
                                                {"padding", nullptr},
                                                {"normalizer", nullptr},
                                                {"pre_tokenizer", nullptr},
                                                {"post_processor", nullptr},
                                                {"decoder", {{"type", "Fuse"}}},
                                                {"added_tokens", Json::array()},
                                                {"model",
                                                 {{"type", "BPE"},
                                                  {"dropout", nullptr},
                                                  {"unk_token", "?"},
                                                  {"fuse_unk", false},
                                                  {"byte_fallback", false},
                                                  {"ignore_merges", false},
                                                  {"vocab", vocab},
                                                  {"merges", Json::array()}}}}),
                                  "ascii.json");
  }();
  return tokenizer;
}

const chat::ChatFolder& tools_chat() {
  static const chat::ChatFolder folder = chat::ChatFolder::parse(
      {{"chat_template.jinja",
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ "
        "c.function.arguments.a }}{% endfor %}{% endfor %}{{ tools | tojson }}"}},
      "tools");
  return folder;
}

ServedModel ascii_model() {
  ServedModel model = small_model();
  model.vocab = 96;
  model.context = 1000;
  model.end_ids = {};
  model.tokenizer = &ascii_tokenizer();
  model.chat = &tools_chat();
  model.grammars = std::make_shared<grammars::MatcherCache>(ascii_tokenizer());
  return model;
}

Json tool(const std::string& name, const Json& parameters) {
  Json function{{"name", name}};
  if (!parameters.is_null()) function["parameters"] = parameters;
  return {{"type", "function"}, {"function", function}};
}

const Json kTown{{"type", "object"},
                 {"properties", {{"town", {{"$ref", "#/$defs/town"}}}}},
                 {"required", {"town"}},
                 {"$defs", {{"town", {{"enum", {"Rome", "Bern"}}}}}}};

Json tools_body(const Json& changes) {
  Json body{{"model", "small"},
            {"messages", {{{"role", "user"}, {"content", "hi"}}}},
            {"tools", {tool("weather", kTown), tool("now", nullptr)}}};
  body.update(changes);
  return body;
}

Prepared tools_prepared(const Json& changes) {
  return prepare_chat_completion(tools_body(changes), ascii_model());
}

std::string tools_fault(const Json& changes) {
  try {
    tools_prepared(changes);
    return "no fault";
  } catch (const ApiError& error) {
    return error.param() + ": " + error.what();
  }
}

/// Whether the form of the request lets the text be written, and end.
bool fits(const Prepared& prepared, const std::string& text) {
  const auto state = prepared.sequences.at(0).allowed->clone();
  std::vector<uint64_t> mask(2);
  for (const char c : text) {
    state->mask(mask);
    const int id = c == '\n' ? 95 : c - ' ';
    if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) return false;
    state->accept(id);
  }
  return state->can_end();
}

TEST(ToolChoice, OfOneFunctionIsItsArguments) {
  const Prepared made = tools_prepared(
      {{"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}}});
  EXPECT_TRUE(fits(made, R"({"town": "Rome"})"));
  EXPECT_FALSE(fits(made, R"({"town": "Oslo"})"));
  EXPECT_FALSE(fits(made, R"({})"));
  EXPECT_TRUE(fits(made, R"({ "town":"Rome" })"));
  for (const char* text : {"{\n\"town\": \"Rome\"}", "{  \"town\": \"Rome\"}"})
    EXPECT_FALSE(fits(made, text)) << text;
  EXPECT_TRUE(fits(
      tools_prepared({{"tool_choice", {{"type", "function"}, {"function", {{"name", "now"}}}}}}),
      "{}"));
}

TEST(ToolChoice, RequiredIsCallsOfAny) {
  const Prepared made = tools_prepared({{"tool_choice", "required"}});
  const std::string rome = R"({"name": "weather", "arguments": {"town": "Rome"}})";
  const std::string now = R"({"name": "now", "arguments": {}})";
  EXPECT_TRUE(fits(made, "[" + rome + "]"));
  EXPECT_TRUE(fits(made, "[" + now + ", " + rome + "]"));
  EXPECT_FALSE(fits(made, "[\n" + rome + "]"));
  EXPECT_FALSE(fits(made, "[]"));
  EXPECT_FALSE(fits(made, R"([{"name": "now", "arguments": {"town": "Rome"}}])"));
  EXPECT_FALSE(fits(made, R"([{"name": "other", "arguments": {}}])"));
  std::string many = "[" + now;
  for (int i = 1; i < kMostCalls; ++i) many += "," + now;
  EXPECT_TRUE(fits(made, many + "]"));
  EXPECT_FALSE(fits(made, many + "," + now + "]"));
  const Prepared one =
      tools_prepared({{"tool_choice", "required"}, {"parallel_tool_calls", false}});
  EXPECT_TRUE(fits(one, "[" + now + "]"));
  EXPECT_FALSE(fits(one, "[" + now + "," + now + "]"));
}

TEST(ToolChoice, NoneAndAutoForceNothing) {
  for (const char* word : {"none", "auto"}) {
    const Prepared made = tools_prepared({{"tool_choice", word}});
    EXPECT_EQ(made.sequences.at(0).allowed, nullptr);
  }
  const auto prompt = [](const Json& changes) {
    return ascii_tokenizer().decode(tools_prepared(changes).sequences.at(0).prompt);
  };
  EXPECT_THAT(prompt(Json::object()), HasSubstr("weather"));
  EXPECT_THAT(prompt({{"tool_choice", "required"}}), HasSubstr("weather"));
  EXPECT_THAT(prompt({{"tool_choice", "none"}}), Not(HasSubstr("weather")));
}

TEST(ToolChoice, NamesWhatIsWrong) {
  EXPECT_THAT(tools_fault({{"tool_choice", "sometimes"}}), HasSubstr("tool_choice: "));
  EXPECT_THAT(tools_fault({{"tool_choice", 5}}), HasSubstr("tool_choice"));
  EXPECT_THAT(tools_fault({{"tool_choice", {{"type", "function"}}}}), HasSubstr("tool_choice: "));
  EXPECT_THAT(
      tools_fault({{"tool_choice", {{"type", "function"}, {"function", {{"name", "other"}}}}}}),
      HasSubstr("there is no function 'other'"));
  EXPECT_THAT(tools_fault({{"tool_choice", "required"}, {"tools", nullptr}}),
              HasSubstr("tool_choice: "));
  EXPECT_THAT(
      tools_fault({{"tool_choice", "required"}, {"response_format", {{"type", "json_object"}}}}),
      HasSubstr("tool_choice: "));
  const auto tools = [](const Json& one, const char* choice = "auto") {
    return tools_fault({{"tools", {tool("a", nullptr), one}}, {"tool_choice", choice}});
  };
  EXPECT_THAT(tools(5), HasSubstr("tools[1]"));
  EXPECT_THAT(tools({{"type", "code"}}), HasSubstr("tools[1].type: "));
  EXPECT_THAT(tools({{"type", "function"}}), HasSubstr("tools[1].function: "));
  EXPECT_THAT(tools(tool("", nullptr)), HasSubstr("tools[1].function.name: "));
  EXPECT_THAT(tools(tool("a b", nullptr)), HasSubstr("tools[1].function.name: "));
  EXPECT_THAT(tools(tool("a", nullptr)), HasSubstr("two functions 'a'"));
  EXPECT_THAT(tools(tool("b", 5)), HasSubstr("tools[1].function.parameters: "));
  EXPECT_THAT(tools(tool("b", {{"type", "string"}}), "required"),
              HasSubstr("tools[1].function.parameters: "));
  const std::string deep =
      tools(tool("b", {{"properties", {{"x", {{"uniqueItems", true}}}}}}), "required");
  EXPECT_THAT(deep, HasSubstr("tools[1].function.parameters: "));
  EXPECT_THAT(deep, HasSubstr("#/properties/x"));
}

TEST(ToolCalls, OfTheConversationAreObjectsForTheTemplate) {
  const auto with_arguments = [](const Json& arguments) {
    const Json call{
        {"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
    return Json{{"messages",
                 {{{"role", "user"}, {"content", "hi"}},
                  {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                  {{"role", "tool"}, {"content", "5"}, {"tool_call_id", "1"}}}}};
  };
  const Prepared made = tools_prepared(with_arguments(R"({"a": "seven"})"));
  EXPECT_THAT(ascii_tokenizer().decode(made.sequences.at(0).prompt), HasSubstr("seven5"));
  EXPECT_THAT(tools_fault(with_arguments("[1]")),
              HasSubstr("messages[1].tool_calls[0].function.arguments: "));
  EXPECT_THAT(tools_fault(with_arguments(std::string(1000, '['))),
              HasSubstr("messages[1].tool_calls[0].function.arguments: "));
}

Written written_calls(const std::string& text, const char* reason) {
  Written written;
  written.result = generated(text, {0}, {-1}, reason);
  return written;
}

const std::string kTwoCalls =
    R"([{"name": "weather", "arguments": {"town": "Ro\"}]{me"}}, {"name":"now","arguments":{}}])";

TEST(ToolCalls, AreTheAnswerAndNotItsText) {
  const Prepared made = tools_prepared({{"tool_choice", "required"}});
  const Json body = Json::parse(made.reply->finish({written_calls(kTwoCalls, "stop")}).text);
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"],
            Json({{"name", "weather"}, {"arguments", R"({"town": "Ro\"}]{me"})"}}));
  EXPECT_EQ(calls[1]["function"], Json({{"name", "now"}, {"arguments", "{}"}}));
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
}

TEST(ToolCalls, ThatAreBrokenOffSaySo) {
  const Prepared made = tools_prepared({{"tool_choice", "required"}});
  const auto choice = [&](const std::string& text) {
    return Json::parse(made.reply->finish({written_calls(text, "length")}).text)["choices"][0];
  };
  const Json half = choice(kTwoCalls.substr(0, 45));
  EXPECT_EQ(half["finish_reason"], "length");
  EXPECT_EQ(half["message"]["tool_calls"][0]["function"]["arguments"], R"({"town": "R)");
  EXPECT_EQ(choice(R"([{"name": "we)")["message"]["tool_calls"], Json::array());
  EXPECT_EQ(choice(kTwoCalls)["finish_reason"], "tool_calls");
}

/// The calls that a stream's deltas come to, and why it ended.
std::pair<Json, Json> streamed(const Json& changes, const std::string& text, size_t piece) {
  Json all = changes;
  all["stream"] = true;
  const Prepared made = tools_prepared(all);
  std::string stream = made.reply->begin();
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"role":"assistant","content":null})"));
  stream.clear();
  for (size_t at = 0; at + piece < text.size(); at += piece)
    stream += made.reply->on_token(0, {{0, -1}, {}, text.substr(at, piece)});
  stream += made.reply->on_end(0, written_calls(text, "stop"));
  Json calls = Json::array(), reason;
  for (size_t begin = 0, end = 0; (end = stream.find("\n\n", begin)) != std::string::npos;
       begin = end + 2) {
    const Json event = Json::parse(stream.substr(begin + 6, end - begin - 6));
    const Json& choice = event["choices"][0];
    reason = choice["finish_reason"];
    EXPECT_FALSE(choice["delta"].contains("content"));
    for (const Json& delta : choice["delta"].value("tool_calls", Json::array())) {
      const auto index = delta["index"].get<size_t>();
      EXPECT_LE(index, calls.size());
      EXPECT_EQ(delta.contains("id"), index == calls.size());
      if (index == calls.size()) {
        EXPECT_EQ(delta["type"], "function");
        calls.push_back({{"name", delta["function"]["name"]}, {"arguments", ""}});
      } else {
        EXPECT_FALSE(delta["function"].contains("name"));
      }
      Json& arguments = calls[index]["arguments"];
      arguments = arguments.get<std::string>() + delta["function"]["arguments"].get<std::string>();
    }
  }
  return {calls, reason};
}

TEST(ToolCalls, ThatAreNotForcedAreFoundBetweenTags) {
  ServedModel tagged = ascii_model();
  tagged.chat_template = "... <tool_call>{...}</tool_call> ...";
  const std::string text = "Let me see. " + std::string(chat::TaggedCalls::kBegin) +
                           R"({"name": "now", "arguments": {}})" +
                           std::string(chat::TaggedCalls::kEnd);
  const auto choice = [&](const ServedModel& model, const Json& changes, const char* reason) {
    const Prepared made = prepare_chat_completion(tools_body(changes), model);
    return Json::parse(made.reply->finish({written_calls(text, reason)}).text)["choices"][0];
  };
  const Json found = choice(tagged, Json::object(), "stop");
  EXPECT_EQ(found["finish_reason"], "tool_calls");
  EXPECT_EQ(found["message"]["content"], "Let me see. ");
  EXPECT_EQ(found["message"]["tool_calls"][0]["function"],
            Json({{"name", "now"}, {"arguments", "{}"}}));
  EXPECT_EQ(choice(tagged, Json::object(), "length")["finish_reason"], "length");
  for (const Json& other : {choice(ascii_model(), Json::object(), "stop"),
                            choice(tagged, {{"tool_choice", "none"}}, "stop"),
                            choice(tagged, {{"tools", nullptr}}, "stop")}) {
    EXPECT_EQ(other["message"]["content"], text);
    EXPECT_FALSE(other["message"].contains("tool_calls"));
    EXPECT_EQ(other["finish_reason"], "stop");
  }
  const Prepared made = prepare_chat_completion(tools_body({{"stream", true}}), tagged);
  std::string stream;
  for (const char c : text.substr(0, text.size() - 1))
    stream += made.reply->on_token(0, {{0, -1}, {}, std::string(1, c)});
  EXPECT_THAT(stream, Not(HasSubstr("tool_calls")));
  stream = made.reply->on_end(0, written_calls(text, "stop"));
  EXPECT_THAT(stream, HasSubstr(R"("function":{"name":"now","arguments":"{}"})"));
  EXPECT_THAT(stream, HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST(ToolCalls, StreamAsDeltas) {
  const Json two = Json::array({{{"name", "weather"}, {"arguments", R"({"town": "Ro\"}]{me"})"}},
                                {{"name", "now"}, {"arguments", "{}"}}});
  const Json one = Json::array({{{"name", "weather"}, {"arguments", R"({"town": "Rome"})"}}});
  const Json named{{"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}}};
  for (const size_t piece : {1, 2, 3, 7, 1000}) {
    EXPECT_EQ(streamed({{"tool_choice", "required"}}, kTwoCalls, piece),
              std::pair(two, Json("tool_calls")))
        << piece;
    EXPECT_EQ(streamed(named, R"({"town": "Rome"})", piece), std::pair(one, Json("tool_calls")))
        << piece;
  }
}

}  // namespace
}  // namespace megalith::protocols
