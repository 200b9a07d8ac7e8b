// SPDX-License-Identifier: Apache-2.0
// Vocabularies of ranks, tiktoken's and Mistral's files among them, against their definition.
#include "vocabularies/ranked_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "text/base64.h"
#include "tokenize/split.h"
#include "vocabularies/tekken_file.h"
#include "vocabularies/tiktoken_file.h"

namespace megalith::vocabularies {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;
using ::testing::HasSubstr;

// The bytes of "abc \n" first, then the others, then tokens of several bytes.
std::vector<std::string> small_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"aa", "ab", " a", "aaa", "abc", "bca", " aab", "aaaa", "\n\n", "ca"})
    tokens.emplace_back(text);
  return tokens;
}

std::string tiktoken_file(const std::vector<std::string>& tokens) {
  std::string file;
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    file += fmt::format("{} {}\n", text::encode_base64(tokens[rank]), rank);
  return file;
}

// Of all neighbours those that make the token of lowest rank, the leftmost first, until there are
// none; a word that is a token is that.
void by_definition(const std::map<std::string, int32_t>& ranks, const std::string& word, Ids& ids) {
  if (const auto whole = ranks.find(word); whole != ranks.end())
    return ids.push_back(whole->second);
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    int32_t best = INT32_MAX;
    size_t place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto made = ranks.find(parts[i] + parts[i + 1]);
      if (made != ranks.end() && made->second < best) best = made->second, place = i;
    }
    if (best == INT32_MAX) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
}

TEST(Tiktoken, IdsAreThoseOfTheDefinition) {
  const std::vector<std::string> tokens = small_vocabulary();
  std::map<std::string, int32_t> ranks;
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    ranks[tokens[rank]] = static_cast<int32_t>(rank);
  std::mt19937 draw(1);
  for (const std::string_view pattern : tiktoken_patterns()) {
    const text::Tokenizer tokenizer = read_tiktoken(tiktoken_file(tokens), pattern, "test");
    const text::Tokenizer again = text::Tokenizer::parse(tokenizer.to_json(), "again");
    const auto scan = tokenize::word_scanner(*tokenize::pattern_of_name(pattern));
    for (int trial = 0; trial < 300; ++trial) {
      std::string words;
      for (size_t i = draw() % 300; i > 0; --i) words += "aaaabbc  \n"[draw() % 10];
      Ids expected;
      for (const char *at = words.data(), *end = at + words.size(); at < end;) {
        const char* const next = scan(at, end);
        by_definition(ranks, std::string(at, next), expected);
        at = next;
      }
      ASSERT_EQ(tokenizer.encode(words, true), expected) << pattern;
      ASSERT_EQ(again.encode(words, true), expected) << pattern;
      ASSERT_EQ(tokenizer.decode(expected), words);
    }
  }
}

TEST(Tiktoken, SpecialTokensStandWhereTheyArePublished) {
  const auto id = [](std::string_view pattern, const char* token, size_t ranks) {
    std::vector<std::string> tokens = small_vocabulary();
    for (size_t i = tokens.size(); i < ranks; ++i) tokens.push_back(fmt::format("#{}", i));
    return read_tiktoken(tiktoken_file(tokens), pattern, "test").id_of(token).value_or(-1);
  };
  EXPECT_EQ(id("gpt2", "<|endoftext|>", 50256), 50256);
  EXPECT_EQ(id("cl100k", "<|endoftext|>", 100256), 100257);
  EXPECT_EQ(id("cl100k", "<|fim_suffix|>", 100256), 100260);
  EXPECT_EQ(id("cl100k", "<|endofprompt|>", 100256), 100276);
  EXPECT_EQ(id("o200k", "<|endofprompt|>", 199998), 200018);
  EXPECT_EQ(id("llama3", "<|eot_id|>", 128000), 128009);
  EXPECT_EQ(id("llama3", "<|reserved_special_token_245|>", 128000), 128255);
  EXPECT_EQ(id("qwen2", "<|im_end|>", 151643), 151645);
  EXPECT_EQ(id("qwen2", "<|extra_204|>", 151643), 151850);
}

// p50k leaves a rank free among the others, which is the special token's.
TEST(Tiktoken, AFreeRankIsTheFirstSpecialToken) {
  std::vector<std::string> tokens = small_vocabulary();
  std::string file = tiktoken_file(tokens) + text::encode_base64("zz") + " 300\n";
  const text::Tokenizer tokenizer = read_tiktoken(file, "gpt2", "test");
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 266);
  EXPECT_EQ(tokenizer.encode("zz<|endoftext|>", true), (Ids{300, 266}));
}

TEST(Tiktoken, WhatIsWrongIsSaid) {
  const auto fault = [](const std::string& content) -> std::string {
    try {
      read_tiktoken(content, "gpt2", "f");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string good = tiktoken_file(small_vocabulary());
  EXPECT_EQ(fault(good), "");
  EXPECT_THAT(fault(""), HasSubstr("the byte 0x00 has no token"));
  EXPECT_THAT(fault(good + "YQ=="), HasSubstr("f:267: not a token"));
  EXPECT_THAT(fault(good + "YQ== x"), HasSubstr("f:267: not a token"));
  EXPECT_THAT(fault(good + "Y* 9"), HasSubstr("f:267"));
  EXPECT_THAT(fault(good + "YQ== 999999999"), HasSubstr("f:267: not a token"));
  EXPECT_THAT(fault(good + "YmI= 5"), HasSubstr("same id 5"));
  EXPECT_THAT(fault(good + "YmI= 70000"), HasSubstr("f: a rank of 70000 for 267 tokens"));
  EXPECT_EQ(fault(good + "YmI= 66000"), "");
  EXPECT_THAT(fault(good + "YWE= 500"), HasSubstr("two ids"));
}

json tekken(const std::vector<std::string>& tokens) {
  json vocab = json::array();
  for (const std::string& bytes : tokens)
    vocab.push_back({{"rank", vocab.size()},
                     {"token_bytes", text::encode_base64(bytes)},
                     {"token_str", nullptr}});
  const std::string pattern(tokenize::pattern_regex(tokenize::SplitPattern::tekken));
  return {{"config",
           {{"pattern", pattern},
            {"num_vocab_tokens", tokens.size()},
            {"default_vocab_size", tokens.size() + 30},
            {"default_num_special_tokens", 30},
            {"version", "v3"}}},
          {"vocab", vocab}};
}

TEST(Tekken, SpecialTokensComeFirstAndNoTextMakesThem) {
  const text::Tokenizer tokenizer = read_tekken(tekken(small_vocabulary()).dump(), "test");
  EXPECT_EQ(tokenizer.vocab_size(), 256 + 10 + 30);
  EXPECT_EQ(tokenizer.id_of("[INST]"), 3);
  EXPECT_EQ(tokenizer.id_of("<SPECIAL_29>"), 29);
  EXPECT_EQ(tokenizer.encode("abc", true), (Ids{30 + 260}));
  EXPECT_EQ(tokenizer.encode("<s>", true), (Ids{30 + '<', 30 + 's', 30 + '>'}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 30 + 260}), "abc");
  EXPECT_EQ(tokenizer.decode(Ids{1, 30 + 260}, true), "<s>abc");
  EXPECT_EQ(tokenizer.decode(Ids{30 + 0xC3, 1, 30 + 0xA9}), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Tekken, TheSizeCutsTheVocabulary) {
  json file = tekken(small_vocabulary());
  file["config"]["default_vocab_size"] = 256 + 30;
  EXPECT_EQ(read_tekken(file.dump(), "test").encode("abc", true),
            (Ids{30 + 'a', 30 + 'b', 30 + 'c'}));
  file["special_tokens"] = json::array();
  for (const char* text : {"<unk>", "<x>"})
    file["special_tokens"].push_back(
        {{"rank", file["special_tokens"].size()}, {"token_str", text}, {"is_control", true}});
  EXPECT_EQ(read_tekken(file.dump(), "test").id_of("<x>"), 1);
  EXPECT_EQ(read_tekken(file.dump(), "test").id_of("<SPECIAL_2>"), 2);
}

TEST(Tekken, WhatIsWrongIsSaid) {
  const auto fault = [](const json& file) -> std::string {
    try {
      read_tekken(file.dump(), "f");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const json good = tekken(small_vocabulary());
  EXPECT_EQ(fault(good), "");
  json file = good;
  file["vocab"][7]["rank"] = 8;
  EXPECT_THAT(fault(file), HasSubstr("vocab[7] has not the rank 7"));
  file = good;
  file["vocab"][7]["token_bytes"] = "!!!!";
  EXPECT_THAT(fault(file), HasSubstr("no base64"));
  file = good;
  file["config"]["default_vocab_size"] = 1000;
  EXPECT_THAT(fault(file), HasSubstr("vocab has 266 tokens"));
  file = good;
  file["config"]["default_num_special_tokens"] = 5;
  file["config"]["default_vocab_size"] = 266 + 5;
  EXPECT_THAT(fault(file), HasSubstr("20 special tokens"));
  file = good;
  file["config"]["version"] = "v11";
  EXPECT_THAT(fault(file), HasSubstr("v11 must list"));
  file = good;
  file["config"]["default_num_special_tokens"] = 4000000;
  file["config"]["default_vocab_size"] = 4000001;
  EXPECT_THAT(fault(file), HasSubstr("not possible sizes"));
  file.erase("config");
  EXPECT_THAT(fault(file), HasSubstr("\"config\" is missing"));
}

}  // namespace
}  // namespace megalith::vocabularies
