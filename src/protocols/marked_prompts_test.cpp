// SPDX-License-Identifier: Apache-2.0
// Requests with an adapter whose virtual tokens stand inside texts, where these have marks.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/function_ref.h"
#include "protocols/chat_completion.h"
#include "protocols/completion.h"
#include "protocols/kserve.h"
#include "protocols/protocols_fixture.h"
#include "protocols/tokens.h"

namespace megalith::protocols {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

using Ids = std::vector<int32_t>;

constexpr char kText[] = "a<|VIRTUAL_PROMPT_0|>b<|VIRTUAL_PROMPT_1|>c";
const Ids kIds = {0, 8, 9, 1, 10, 3};

class MarkedPrompts : public ::testing::Test {
 protected:
  Prepared completion(Json body, const std::string& name = "marked") const {
    body["model"] = name;
    return prepare_completion(body, model_asked(served_, body));
  }
  Prepared chat(const std::string& content, const Json& changes = Json::object()) const {
    Json body{{"model", "marked"}, {"messages", {{{"role", "user"}, {"content", content}}}}};
    body.update(changes);
    return prepare_chat_completion(body, marked_);
  }
  /// The field that is wrong, and why.
  static std::string fault(FunctionRef<void()> call) {
    try {
      call();
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status(), 400);
      return error.param() + ": " + error.what();
    }
    return "no fault";
  }
  static Prepared infer(const Ids& ids, const ServedModel& model) {
    const Json inputs{
        {{"name", "input_ids"}, {"datatype", "UINT32"}, {"shape", {1, ids.size()}}, {"data", ids}},
        {{"name", "request_output_len"}, {"datatype", "UINT32"}, {"shape", {1, 1}}, {"data", {2}}}};
    return prepare_infer(Json{{"inputs", inputs}}.dump(), "", model.name, model);
  }
  std::string completion_fault(const Json& body, const std::string& name = "marked") const {
    return fault([&] { completion(body, name); });
  }

  ServedModel served_ = small_model_with_marks();
  const ServedModel& marked_ = model_named(served_, "marked");
};

TEST_F(MarkedPrompts, HaveRowsWhereTheMarksAre) {
  const Prepared made =
      completion({{"prompt", {kText, "<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>ab"}}});
  EXPECT_EQ(made.sequences.at(0).prompt, kIds);
  EXPECT_THAT(made.sequences.at(1).prompt, ElementsAre(8, 9, 10, 2));
  EXPECT_THAT(chat("a<|VIRTUAL_PROMPT_0|>b<|VIRTUAL_PROMPT_1|>").sequences.at(0).prompt,
              ElementsAre(5, 0, 8, 9, 1, 10, 3));
  const Json text{{"text_input", kText}};
  EXPECT_EQ(prepare_kserve_generate(text, "marked", false, marked_).sequences.at(0).prompt, kIds);
}

/// However many another one has.
TEST_F(MarkedPrompts, HaveMarksAndRowsOfTheAdapterThatIsNamed) {
  EXPECT_THAT(completion({{"prompt", "a<|VIRTUAL_PROMPT_0|>b"}}, "single").sequences.at(0).prompt,
              ElementsAre(0, 8, 1));
  EXPECT_THAT(completion({{"prompt", Ids{0, 8, 1}}}, "single").sequences.at(0).prompt,
              ElementsAre(0, 8, 1));
  const Ids ids = completion({{"prompt", "<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>"}}, "single")
                      .sequences.at(0)
                      .prompt;
  EXPECT_THAT(Ids(ids.begin() + 1, ids.end()), Each(Lt(8)));
  EXPECT_EQ(ids.size(), 1 + std::string("<|VIRTUAL_PROMPT_1|>").size());
  EXPECT_THAT(completion_fault({{"prompt", Ids{0, 8, 9}}}, "single"), HasSubstr("9 is no token"));
  EXPECT_THAT(completion_fault({{"prompt", Ids{10, 8}}}, "single"), HasSubstr("10 is no token"));
  EXPECT_THAT(completion_fault({{"prompt", Ids{0, 8, 1}}}), HasSubstr("the ids must have those"));
  const ServedModel& single = model_named(served_, "single");
  EXPECT_THAT(infer({0, 8, 1}, single).sequences.at(0).prompt, ElementsAre(0, 8, 1));
  EXPECT_THAT(fault([&] { infer(kIds, single); }), HasSubstr("input_ids: 9 is no token"));
}

/// Of the model itself, or of an adapter without marks, nothing of a text or of ids is more than it
/// says.
TEST_F(MarkedPrompts, AreTextWhereThereAreNoMarks) {
  for (const char* const name : {"small", "plain"}) {
    const Ids ids = completion({{"prompt", "<|VIRTUAL_PROMPT_0|>"}}, name).sequences.at(0).prompt;
    EXPECT_THAT(ids, Each(Lt(8)));
    EXPECT_EQ(ids.size(), std::string("<|VIRTUAL_PROMPT_0|>").size());
    EXPECT_THAT(completion_fault({{"prompt", kIds}}, name), HasSubstr("prompt: ")) << name;
  }
}

TEST_F(MarkedPrompts, NameTheMarkThatIsMissingOrOneTooMany) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"ab", "the text has no <|VIRTUAL_PROMPT_0|>"},
      {"", "the text has no <|VIRTUAL_PROMPT_0|>"},
      {"a<|VIRTUAL_PROMPT_0|>", "the text has no <|VIRTUAL_PROMPT_1|>"},
      {"<|VIRTUAL_PROMPT_1|><|VIRTUAL_PROMPT_0|>", "a <|VIRTUAL_PROMPT_1|> that is not its next"},
      {"<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>",
       "a <|VIRTUAL_PROMPT_0|> that is not its next"},
      {"<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|><|VIRTUAL_PROMPT_1|>",
       "a <|VIRTUAL_PROMPT_1|> that is not its next"}};
  for (const auto& one : wrong) {
    const std::string &text = one.first, &expected = one.second;
    EXPECT_THAT(completion_fault({{"prompt", text}}), HasSubstr("prompt: the text has "));
    EXPECT_THAT(completion_fault({{"prompt", {kText, text}}}), HasSubstr(expected));
    EXPECT_THAT(fault([&] { chat(text); }), HasSubstr(expected));
    EXPECT_THAT(fault([&] { tokenize({{"prompt", text}}, marked_); }), HasSubstr(expected));
    EXPECT_THAT(fault([&] {
                  prepare_kserve_generate({{"text_input", text}}, "marked", false, marked_);
                }),
                HasSubstr(expected));
  }
  EXPECT_THAT(fault([&] { chat("ab"); }), HasSubstr("messages: "));
}

/// Whoever wrote them: the whole text that the template makes has each once.
TEST_F(MarkedPrompts, CountInEveryMessageOfAChat) {
  const auto with = [&](const std::string& role, const std::string& content) {
    const Json asked{{"role", "user"}, {"content", "<|VIRTUAL_PROMPT_0|>a<|VIRTUAL_PROMPT_1|>"}};
    const Json messages = Json::array({asked, {{"role", role}, {"content", content}}});
    return chat("", {{"messages", messages}});
  };
  for (const char* const role : {"user", "assistant", "tool"}) {
    EXPECT_EQ(with(role, "b").sequences.size(), 1u) << role;
    EXPECT_THAT(fault([&] { with(role, "b<|VIRTUAL_PROMPT_1|>"); }),
                HasSubstr("messages: the text has a <|VIRTUAL_PROMPT_1|> that is not its next"))
        << role;
  }
}

TEST_F(MarkedPrompts, ComeAsIdsThatNameEachRowOnceAndInOrder) {
  EXPECT_EQ(completion({{"prompt", kIds}}).sequences.at(0).prompt, kIds);
  for (const Ids& ids : std::vector<Ids>{
           {0}, {8, 9}, {8, 9, 10, 10}, {8, 1, 9, 10}, {9, 8, 10}, {8, 9, 10, 11}, {10, 8, 9}})
    EXPECT_THAT(completion_fault({{"prompt", ids}}), HasSubstr("prompt: ")) << Json(ids).dump();
  EXPECT_EQ(infer(kIds, marked_).sequences.at(0).prompt, kIds);
  EXPECT_THAT(fault([&] { infer({8, 9}, marked_); }), HasSubstr("input_ids: the ids must have"));
  EXPECT_THAT(fault([&] { infer({8, 9, 11}, marked_); }), HasSubstr("11 is no token"));
  EXPECT_THAT(fault([&] { infer(kIds, served_); }), HasSubstr("8 is no token"));
}

/// As virtual tokens before a text: they take their places of the context, and are not counted.
TEST_F(MarkedPrompts, AreCountedWithoutTheirRows) {
  const Prepared made = completion({{"prompt", kText}, {"max_tokens", 26}});
  EXPECT_EQ(made.sequences.at(0).options.max_new_tokens, 26);
  EXPECT_THAT(completion_fault({{"prompt", kText}, {"max_tokens", 27}}),
              HasSubstr("length is 29 tokens. However, you requested 30 tokens (3 in the prompt"));
  EXPECT_EQ(chat("<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>").sequences.at(0).options.max_new_tokens,
            27);
  Written written;
  written.result = generated("a", {0}, {-0.5}, "stop");
  EXPECT_EQ(Json::parse(made.reply->finish({written}).text)["usage"]["prompt_tokens"], 3);
  const Prepared answer = chat("<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>");
  EXPECT_EQ(Json::parse(answer.reply->finish({written}).text)["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(tokenize({{"prompt", kText}, {"return_token_strs", true}}, marked_).text,
            R"({"count":3,"max_model_len":29,"tokens":[0,8,9,1,10,3],)"
            R"("token_strs":["a","token_id:8","token_id:9","b","token_id:10","c"]})");
  EXPECT_EQ(tokenize({{"content", kText}}, marked_).text, R"({"tokens":[0,8,9,1,10,3]})");
}

/// A tokenizer may have more tokens than the model: here 9, the second row of a mark, and 12, so
/// that it has no token 8, 10 and 11.
TEST_F(MarkedPrompts, HaveRowsThatAreNoTokensOfALargerTokenizer) {
  Json json = Json::parse(small_tokenizer().to_json());
  for (const auto& [id, content] : {std::pair(9, "<nine>"), std::pair(12, "<twelve>")})
    json["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}});
  const text::Tokenizer larger = text::Tokenizer::parse(json.dump(), "larger.json");
  ServedModel model = marked_;
  model.tokenizer = &larger;
  model.marks =
      std::make_shared<adapters::PromptMarks>(larger, model.vocab, std::vector<int64_t>{2, 1});
  const Json answer =
      Json::parse(tokenize({{"prompt", kText}, {"return_token_strs", true}}, model).text);
  EXPECT_EQ(answer["tokens"], Json(kIds));
  EXPECT_EQ(answer["token_strs"], Json({"a", "token_id:8", "token_id:9", "b", "token_id:10", "c"}));
  const Json pieces =
      Json::parse(tokenize({{"content", kText}, {"with_pieces", true}}, model).text)["tokens"];
  EXPECT_EQ(pieces[2]["piece"], "token_id:9");
  for (const int32_t id : {8, 9, 10, 11, 12})
    EXPECT_THAT(fault([&] {
                  detokenize({{"tokens", Ids{0, id}}}, model);
                }),
                HasSubstr(fmt::format("tokens: {} is no token", id)));
  EXPECT_THAT(fault([&] {
                tokenize({{"prompt", "<nine>"}}, model);
              }),
              HasSubstr("a token 9 that the model, which has 8, has not"));
}

TEST_F(MarkedPrompts, AreTruncatedWhereNoRowIsLost) {
  const Json text = "ab c<|VIRTUAL_PROMPT_0|>a<|VIRTUAL_PROMPT_1|>b";
  EXPECT_THAT(completion({{"prompt", text}, {"truncate_prompt_tokens", 3}}).sequences[0].prompt,
              ElementsAre(3, 8, 9, 0, 10, 1));
  EXPECT_EQ(
      completion({{"prompt", text}, {"truncate_prompt_tokens", 5}}).sequences[0].prompt.size(), 8u);
  EXPECT_THAT(completion_fault({{"prompt", text}, {"truncate_prompt_tokens", 1}}),
              HasSubstr("truncate_prompt_tokens: the last 1 tokens"));
}

TEST_F(MarkedPrompts, AreEchoedAsTheyCame) {
  Written written;
  written.result = generated("b", {1}, {-0.5}, "length");
  const auto echoed = [&](const Json& prompt) {
    const Prepared made =
        completion({{"prompt", prompt}, {"echo", true}, {"return_token_ids", true}});
    return Json::parse(made.reply->finish({written}).text)["choices"][0];
  };
  EXPECT_EQ(echoed(kText)["text"], std::string(kText) + "b");
  EXPECT_EQ(echoed(kText)["prompt_token_ids"], Json(kIds));
  EXPECT_EQ(echoed(kIds)["text"], "abcb");
  EXPECT_THAT(completion_fault({{"prompt", kText}, {"echo", true}, {"logprobs", 0}}),
              HasSubstr("echo: echo with logprobs is not supported with virtual tokens inside"));
}

/// What looks at the text that goes on sees nothing of the rows.
TEST_F(MarkedPrompts, GoOnInSearchesAndForms) {
  Written written;
  written.result = generated("a", {0}, {-0.5}, "stop");
  written.result.others = {generated("bc", {1, 3}, {-0.5, -1}, "length")};
  const Json search{{"prompt", kText}, {"use_beam_search", true}, {"n", 2}};
  EXPECT_EQ(Json::parse(completion(search).reply->finish({written}).text)["choices"][1]["text"],
            "bc");
  const Prepared made =
      chat("<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>", {{"use_beam_search", true}, {"n", 2}});
  EXPECT_EQ(Json::parse(made.reply->finish({written}).text)["choices"][1]["message"]["content"],
            "bc");
  EXPECT_NE(completion({{"prompt", kText}, {"guided_choice", {"ab"}}}).sequences.at(0).allowed,
            nullptr);
}

}  // namespace
}  // namespace megalith::protocols
