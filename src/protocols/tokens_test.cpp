// SPDX-License-Identifier: Apache-2.0
#include "protocols/tokens.h"

#include <gtest/gtest.h>

#include "characters/utf8.h"
#include "protocols/embeddings.h"
#include "protocols/models.h"
#include "protocols/protocols_fixture.h"
#include "text/token_text.h"

namespace megalith::protocols {
namespace {

TEST(Tokens, GoBothWays) {
  const ServedModel model = small_model();
  EXPECT_EQ(tokenize({{"prompt", "ab c"}, {"return_token_strs", true}}, model).text,
            R"({"count":3,"max_model_len":32,"tokens":[2,4,3],"token_strs":["ab"," ","c"]})");
  EXPECT_EQ(tokenize({{"content", "a"}, {"with_pieces", true}}, model).text,
            R"({"tokens":[{"id":0,"piece":"a"}]})");
  EXPECT_EQ(detokenize({{"tokens", {2, 3}}}, model).text, R"({"prompt":"abc","content":"abc"})");
  EXPECT_THROW(detokenize({{"tokens", {8}}}, model), ApiError);
  EXPECT_THROW(tokenize({{"prompt", 5}}, model), ApiError);
  EXPECT_THROW(tokenize(Json::object(), model), ApiError);
}

TEST(Tokens, AreShownAsTheyRead) {
  const text::TokenText texts(&small_tokenizer());
  EXPECT_EQ(texts.text(6), "\u00e9");
  EXPECT_EQ(texts.text(7), "<end>");
  EXPECT_EQ(texts.bytes(6), "\u00e9");
  EXPECT_EQ(text::TokenText(&small_tokenizer(), true).text(6), "token_id:6");
  EXPECT_EQ(characters::count_characters("a\u00e9\u20ac"), 3);
}

TEST(Models, AreTold) {
  const ServedModel model = small_model();
  const Json list = Json::parse(models_json(model, {}));
  EXPECT_EQ(list["data"][0]["id"], "small");
  EXPECT_EQ(list["data"][0]["max_model_len"], 32);
  EXPECT_EQ(Json::parse(tokenizer_info_json(model))["eos_token"], "<end>");
}

TEST(Embeddings, AreOfLengthOne) {
  const PreparedReading made =
      prepare_embeddings({{"model", "small"}, {"input", {"ab", "c"}}}, small_model());
  ASSERT_EQ(made.readings.size(), 2u);
  const Json body = Json::parse(made.answer({{3, 4}, {0, 2}}).text);
  EXPECT_EQ(body["data"][0]["embedding"], Json({0.6, 0.8}));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2);
  const PreparedReading base64 = prepare_embeddings(
      {{"model", "small"}, {"input", {3}}, {"encoding_format", "base64"}}, small_model());
  EXPECT_EQ(Json::parse(base64.answer({{2, 0}}).text)["data"][0]["embedding"], "AACAPwAAAAA=");
  for (const Json& input : std::vector<Json>{nullptr, 5, Json::array(), {8}, std::vector<int>(33)})
    EXPECT_THROW(prepare_embeddings({{"model", "small"}, {"input", input}}, small_model()),
                 ApiError)
        << input.dump();
}

}  // namespace
}  // namespace megalith::protocols
