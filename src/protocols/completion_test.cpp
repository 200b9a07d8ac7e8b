// SPDX-License-Identifier: Apache-2.0
#include "protocols/completion.h"

#include <gmock/gmock.h>

#include "protocols/protocols_fixture.h"

namespace megalith::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json with(const Json& changes) {
  Json body{{"model", "small"}, {"prompt", "ab c"}};
  if (!changes.is_null()) body.update(changes);
  return body;
}

Prepared prepared(const Json& changes) { return prepare_completion(with(changes), small_model()); }

/// The field that is wrong and why.
std::pair<std::string, std::string> fault_of(const Json& changes) {
  try {
    prepared(changes);
    return {"", "no fault"};
  } catch (const ApiError& error) {
    return {error.param(), error.what()};
  }
}

Written text_of(const std::string& text, std::vector<int32_t> ids, std::vector<double> logprobs,
                const std::string& reason = "length") {
  Written written;
  for (size_t i = 0; i < ids.size(); ++i)
    written.tokens.push_back({{ids[i], logprobs[i]}, {{ids[i], logprobs[i]}}, text.substr(i, 1)});
  written.result.text = text;
  written.result.ids = std::move(ids);
  written.result.logprobs = std::move(logprobs);
  written.result.finish_reason = reason;
  return written;
}

TEST(Completion, HasOpenAisDefaults) {
  const Prepared made = prepared({});
  ASSERT_EQ(made.sequences.size(), 1u);
  EXPECT_THAT(made.sequences[0].prompt, ElementsAre(2, 4, 3));
  const generate::GenerateOptions& options = made.sequences[0].options;
  EXPECT_EQ(options.max_new_tokens, 16);
  EXPECT_EQ(options.sampling.temperature, 1);
  EXPECT_EQ(options.sampling.top_p, 1);
  EXPECT_THAT(options.end_ids, ElementsAre(7));
  EXPECT_FALSE(made.reply->streams);
}

TEST(Completion, ReadsEveryField) {
  const Prepared made = prepared({{"max_tokens", 5},
                                  {"temperature", 0.5},
                                  {"top_p", 0.25},
                                  {"top_k", 3},
                                  {"min_p", 0.125},
                                  {"n", 2},
                                  {"seed", -2},
                                  {"stop", "b"},
                                  {"presence_penalty", 1},
                                  {"frequency_penalty", -1},
                                  {"repetition_penalty", 1.5},
                                  {"logit_bias", {{"3", -100}}},
                                  {"logprobs", 2},
                                  {"min_tokens", 2},
                                  {"stop_token_ids", {1}},
                                  {"bad_words", {"c"}},
                                  {"user", "me"}});
  ASSERT_EQ(made.sequences.size(), 2u);
  const generate::GenerateOptions& options = made.sequences[0].options;
  EXPECT_EQ(options.max_new_tokens, 5);
  EXPECT_EQ(options.sampling.temperature, 0.5);
  EXPECT_EQ(options.sampling.top_p, 0.25);
  EXPECT_EQ(options.sampling.top_k, 3);
  EXPECT_EQ(options.sampling.min_p, 0.125);
  EXPECT_EQ(options.sampling.seed, static_cast<uint64_t>(-2));
  EXPECT_EQ(made.sequences[1].options.sampling.seed, static_cast<uint64_t>(-1));
  EXPECT_THAT(options.stop, ElementsAre("b"));
  EXPECT_EQ(options.sampling.presence_penalty, 1);
  EXPECT_EQ(options.sampling.frequency_penalty, -1);
  EXPECT_EQ(options.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(options.sampling.logit_bias.at(3), -100);
  EXPECT_EQ(options.top_logprobs, 2);
  EXPECT_EQ(options.min_tokens, 2);
  EXPECT_THAT(options.end_ids, ElementsAre(7, 1));
  EXPECT_FALSE(options.sampling.bad_words.empty());
  EXPECT_EQ(made.user, "me");
}

TEST(Completion, TakesPromptsOfEveryShape) {
  const auto prompts = [](const Json& prompt) {
    std::vector<std::vector<int32_t>> all;
    for (const PreparedSequence& sequence : prepared({{"prompt", prompt}}).sequences)
      all.push_back(sequence.prompt);
    return all;
  };
  EXPECT_THAT(prompts({"a", "b"}), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(prompts({3, 4}), ElementsAre(ElementsAre(3, 4)));
  EXPECT_THAT(prompts({{3, 4}, {5}}), ElementsAre(ElementsAre(3, 4), ElementsAre(5)));
  EXPECT_THAT(prompts(""), ElementsAre(ElementsAre(7)));  // a text begins after an end
  EXPECT_THAT(prepared({{"truncate_prompt_tokens", 2}}).sequences[0].prompt, ElementsAre(4, 3));
}

TEST(Completion, NamesTheFieldThatIsWrong) {
  const std::vector<std::pair<const char*, Json>> wrong{
      {"temperature", -0.1},
      {"temperature", 2.1},
      {"temperature", "1"},
      {"top_p", -0.1},
      {"top_p", 1.1},
      {"top_k", -2},
      {"top_k", 1.5},
      {"max_tokens", -1},
      {"max_tokens", 1.5},
      {"max_tokens", 0},
      {"max_tokens", "5"},
      {"n", 0},
      {"n", 9},
      {"n", 1e30},
      {"best_of", 9},
      {"logprobs", -1},
      {"logprobs", 21},
      {"logprobs", true},
      {"presence_penalty", 2.1},
      {"frequency_penalty", -2.1},
      {"repetition_penalty", 0},
      {"seed", 1.5},
      {"seed", 1e19},
      {"stop", 5},
      {"stop", ""},
      {"stop", {""}},
      {"stop", std::vector<std::string>(17, "x")},
      {"stop", std::string(257, 'x')},
      {"logit_bias", 5},
      {"logit_bias", {{"8", 1}}},
      {"logit_bias", {{"-1", 1}}},
      {"logit_bias", {{"x", 1}}},
      {"logit_bias", {{"1", 101}}},
      {"stream", "yes"},
      {"echo", 1},
      {"user", std::string(257, 'x')},
      {"priority", 1},
      {"store", true},
      {"prompt", 5},
      {"prompt", Json::array()},
      {"prompt", {-1}},
      {"prompt", {8}},
      {"prompt", {1, "a"}},
      {"prompt", {{1}, 5}},
      {"prompt", Json::array({Json::array()})},
      {"prompt", std::vector<std::string>(65, "a")},
      {"model", "other"},
      {"model", 5},
      {"suffix", "x"},
      {"allowed_token_ids", {1}},
      {"min_p", 2},
      {"min_tokens", -1},
      {"stream_options", {{"include_usage", true}}},
      {"stop_token_ids", {9}},
      {"prompt_logprobs", 1}};
  for (const auto& [field, value] : wrong) {
    const auto [param, message] = fault_of({{field, value}});
    EXPECT_EQ(param, field) << message << " for " << value.dump().substr(0, 80);
  }
  EXPECT_EQ(fault_of({{"prompt", nullptr}}).first, "prompt");
  EXPECT_EQ(fault_of({{"stream", true}, {"echo", true}, {"logprobs", 1}}).first, "echo");
  EXPECT_EQ(fault_of({{"n", 8}, {"prompt", std::vector<std::string>(6, "a")}}).first, "n");
}

TEST(Completion, WhatIsNotGivenOrHarmlessIsNoFault) {
  for (const Json& changes :
       std::vector<Json>{{{"temperature", nullptr}, {"stop", nullptr}, {"logit_bias", nullptr}},
                         {{"suffix", ""}, {"allowed_token_ids", nullptr}, {"stop", Json::array()}},
                         {{"skip_special_tokens", true}, {"response_format", {{"type", "text"}}}},
                         {{"stop", std::vector<std::string>(16, std::string(256, 'x'))}},
                         {{"max_tokens", 0}, {"echo", true}}})
    EXPECT_EQ(fault_of(changes).second, "no fault") << changes.dump();
  EXPECT_THAT(prepared({{"tempreture", 1}}).unknown_fields, ElementsAre("tempreture"));
}

TEST(Completion, PromptAndTextFitTheContext) {
  const auto prompt = [](size_t length) { return std::vector<int>(length, 3); };
  EXPECT_EQ(fault_of({{"prompt", prompt(28)}, {"max_tokens", 4}}).second, "no fault");
  const auto [param, message] = fault_of({{"prompt", prompt(28)}, {"max_tokens", 5}});
  EXPECT_EQ(param, "max_tokens");
  EXPECT_EQ(message,
            "This model's maximum context length is 32 tokens. However, you requested 33 tokens "
            "(28 in the prompt, 5 for the completion).");
  EXPECT_EQ(prepared({{"prompt", prompt(28)}}).sequences[0].options.max_new_tokens, 4);
  EXPECT_THAT(fault_of({{"prompt", prompt(32)}}).second, HasSubstr("maximum context"));
  EXPECT_EQ(fault_of({{"prompt", prompt(32)}, {"max_tokens", 0}, {"echo", true}}).second,
            "no fault");
}

TEST(CompletionReply, IsOpenAis) {
  const Prepared made = prepared({{"logprobs", 1}, {"n", 2}});
  std::vector<Written> written{text_of("ac", {0, 3}, {-0.5, -1}, "stop"),
                               text_of("b", {1}, {-0.25})};
  written[0].tokens[0].alternatives = {{1, -0.125}};
  const Json body = Json::parse(made.reply->finish(written).text);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "small");
  EXPECT_EQ(body["usage"],
            Json({{"prompt_tokens", 3}, {"completion_tokens", 3}, {"total_tokens", 6}}));
  EXPECT_EQ(body["choices"].size(), 2u);
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["text"], "ac");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"a", "c"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json({-0.5, -1.0}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], Json({{"b", -0.125}, {"a", -0.5}}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1}));
  EXPECT_EQ(body["choices"][1]["index"], 1);
}

TEST(CompletionReply, EchoesWithTheFirstTokenUnscored) {
  const Prepared made = prepared({{"logprobs", 1}, {"echo", true}, {"max_tokens", 1}});
  EXPECT_TRUE(made.sequences[0].options.prompt_logprobs);
  Written written = text_of("a", {0}, {-0.5});
  written.result.prompt_logprobs = {-1, -2};
  written.result.prompt_top_logprobs = {{{4, -1}}, {{0, -1.5}}};
  const Json choice = Json::parse(made.reply->finish({written}).text)["choices"][0];
  EXPECT_EQ(choice["text"], "ab ca");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"ab", " ", "c", "a"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({nullptr, -1.0, -2.0, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][1], Json({{" ", -1.0}}));
  EXPECT_EQ(logprobs["top_logprobs"][2], Json({{"a", -1.5}, {"c", -2.0}}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 2, 3, 4}));
}

TEST(CompletionReply, AScoredPromptHasOneTokenMoreEvenIfItIsTheEnd) {
  const Prepared made = prepared({{"logprobs", 1}, {"echo", true}, {"max_tokens", 1}});
  EXPECT_TRUE(made.sequences[0].options.ignore_eos);
  Written written = text_of("", {7}, {-0.5});
  written.tokens[0].text = "";
  written.result.prompt_logprobs = {-1, -2};
  const Json choice = Json::parse(made.reply->finish({written}).text)["choices"][0];
  EXPECT_EQ(choice["text"], "ab c");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), 4u);
}

TEST(Completion, ReadsASearch) {
  const Prepared made = prepared({{"use_beam_search", true},
                                  {"best_of", 4},
                                  {"n", 2},
                                  {"length_penalty", 0.5},
                                  {"early_stopping", true},
                                  {"prompt", {"a", "b"}}});
  ASSERT_EQ(made.sequences.size(), 2u);
  const generate::GenerateOptions& options = made.sequences[1].options;
  EXPECT_EQ(options.beams, 4);
  EXPECT_EQ(options.best, 2);
  EXPECT_EQ(options.length_penalty, 0.5);
  EXPECT_EQ(options.early_stopping, generate::EarlyStopping::at_once);
  generate::check(options);
  const auto stops = [](const Json& early) {
    return prepared({{"use_beam_search", true}, {"n", 2}, {"early_stopping", early}})
        .sequences[0]
        .options.early_stopping;
  };
  EXPECT_EQ(stops(nullptr), generate::EarlyStopping::likely);
  EXPECT_EQ(stops(false), generate::EarlyStopping::likely);
  EXPECT_EQ(stops("never"), generate::EarlyStopping::never);
}

TEST(Completion, NamesWhatASearchCannotDo) {
  const std::vector<std::pair<const char*, Json>> wrong{
      {"best_of", {{"best_of", 1}}},
      {"best_of", {{"best_of", 65}}},
      {"best_of", {{"n", 4}, {"best_of", 2}}},
      {"best_of", {{"best_of", 41}}},
      {"temperature", {{"temperature", 0.5}}},
      {"top_p", {{"top_p", 0.5}}},
      {"top_k", {{"top_k", 5}}},
      {"top_k", {{"top_p", 0}}},
      {"min_p", {{"min_p", 0.5}}},
      {"typical_p", {{"typical_p", 0.5}}},
      {"stop", {{"stop", "a"}}},
      {"stream", {{"stream", true}}},
      {"length_penalty", {{"length_penalty", 101}}},
      {"early_stopping", {{"early_stopping", 1}}}};
  for (const auto& [param, changes] : wrong) {
    Json search{{"use_beam_search", true}, {"best_of", 3}};
    search.update(changes);
    EXPECT_EQ(fault_of(search).first, param) << changes.dump();
  }
  EXPECT_EQ(fault_of({{"length_penalty", 2}}).first, "length_penalty");
  EXPECT_EQ(fault_of({{"early_stopping", true}}).first, "early_stopping");
  EXPECT_EQ(fault_of({{"length_penalty", 1}, {"early_stopping", false}}).second, "no fault");
}

TEST(CompletionReply, TellsTheBestOfASearch) {
  const Prepared made = prepared({{"use_beam_search", true},
                                  {"best_of", 3},
                                  {"n", 2},
                                  {"logprobs", 1},
                                  {"echo", true},
                                  {"prompt", {"ab", "c"}}});
  ASSERT_EQ(made.sequences.size(), 2u);
  std::vector<Written> written;
  for (const char* text : {"a", "b"}) {
    written.push_back(text_of(text, {*text - 'a'}, {-1}, "stop"));
    generate::Generated other = generated("cab", {3, 2}, {-1, -0.5}, "length");
    other.top_logprobs = {{{1, -0.25}}, {{2, -0.5}}};
    written.back().result.others = {other};
  }
  const Json body = Json::parse(made.reply->finish(written).text);
  ASSERT_EQ(body["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(body["choices"][i]["index"], i);
  EXPECT_EQ(body["choices"][0]["text"], "aba");
  EXPECT_EQ(body["choices"][3]["text"], "ccab");
  EXPECT_EQ(body["choices"][2]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][3]["finish_reason"], "length");
  const Json& logprobs = body["choices"][3]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"c", "c", "ab"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({nullptr, -1.0, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][1], Json({{"b", -0.25}, {"c", -1.0}}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2}));
  EXPECT_EQ(body["usage"]["completion_tokens"], 6);
}

TEST(CompletionReply, BestOfGivesTheLikeliest) {
  const Prepared made = prepared({{"best_of", 3}, {"n", 1}});
  ASSERT_EQ(made.sequences.size(), 3u);
  const Json body = Json::parse(
      made.reply
          ->finish({text_of("a", {0}, {-2}), text_of("b", {1}, {-1}), text_of("c", {3}, {-3})})
          .text);
  ASSERT_EQ(body["choices"].size(), 1u);
  EXPECT_EQ(body["choices"][0]["text"], "b");
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
}

std::vector<Json> events_in(const std::string& stream) {
  std::vector<Json> events;
  size_t begin = 0;
  for (size_t end = 0; (end = stream.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const std::string event = stream.substr(begin, end - begin);
    EXPECT_TRUE(event.starts_with("data: "));
    events.push_back(event == "data: [DONE]" ? Json("[DONE]") : Json::parse(event.substr(6)));
  }
  return events;
}

TEST(CompletionReply, StreamsPiecesThenUsageThenDone) {
  const Prepared made =
      prepared({{"stream", true}, {"stream_options", {{"include_usage", true}}}, {"echo", true}});
  ASSERT_TRUE(made.reply->streams);
  std::string stream = made.reply->begin();
  stream += made.reply->on_token(0, {{0, -0.5}, {}, "a"});
  stream += made.reply->on_token(0, {{6, -0.5}, {}, ""});  // within a character
  const Written written = text_of("a\u00e9", {0, 6}, {-0.5, -0.5}, "stop");
  stream += made.reply->on_end(0, written);
  stream += made.reply->finish({written}).text;
  const std::vector<Json> events = events_in(stream);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "ab c");
  EXPECT_EQ(events[1]["choices"][0]["text"], "a");
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], nullptr);
  EXPECT_EQ(events[1]["usage"], nullptr);
  EXPECT_EQ(events[2]["choices"][0]["text"], "\u00e9");
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3]["choices"], Json::array());
  EXPECT_EQ(events[3]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events[4], "[DONE]");
}

}  // namespace
}  // namespace megalith::protocols
