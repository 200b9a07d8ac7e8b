// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/error.h"
#include "text/tokenizer_fixture.h"
#include "tokenize/random_text_fixture.h"
#include "tokenize/split.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

json english() {
  return small_tokenizer({{"t", "h"},
                          {"th", "e"},
                          {" ", "the"},
                          {"i", "n"},
                          {"e", "r"},
                          {"a", "n"},
                          {" ", "a"},
                          {"r", "e"},
                          {"o", "n"},
                          {"an", "d"},
                          {"\xC3", "\xA9"}});
}

Ids byte_ids(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

TEST(Tokenizer, EncodesByHand) {
  const Tokenizer tokenizer = parse(english());
  EXPECT_EQ(tokenizer.vocab_size(), 268);
  EXPECT_EQ(tokenizer.encode("the the", false), (Ids{257, 258}));
  EXPECT_EQ(tokenizer.encode("there", false), (Ids{257, 263}));  // th e re: "er" comes too late
  EXPECT_EQ(tokenizer.encode("xyz", false), byte_ids("xyz"));
  EXPECT_EQ(tokenizer.encode("", false), Ids{});
  EXPECT_EQ(tokenizer.encode("the<|endoftext|> the", false), (Ids{257, 267, 258}));
  EXPECT_EQ(tokenizer.id_of("\xC4\xA0the"), 258);
  EXPECT_EQ(tokenizer.token_text(258), "\xC4\xA0the");
  EXPECT_EQ(tokenizer.token_bytes(258), " the");
  EXPECT_EQ(tokenizer.id_of("no such"), std::nullopt);
  EXPECT_EQ(tokenizer.end_of_document(), 267);
  EXPECT_TRUE(tokenizer.is_special(267));
  EXPECT_FALSE(tokenizer.is_special(257));
}

/// A tokenizer of each pattern.
std::vector<Tokenizer> of_each_pattern() {
  std::vector<Tokenizer> tokenizers;
  json file = english();
  for (const char* regex : {"", "llama3", "qwen2"}) {
    if (*regex != 0) {
      const std::string pattern(tokenize::pattern_regex(*tokenize::pattern_of_name(regex)));
      file["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", pattern}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    }
    tokenizers.push_back(parse(file));
  }
  return tokenizers;
}

TEST(Tokenizer, DecodingUndoesEncoding) {
  for (const Tokenizer& tokenizer : of_each_pattern()) {
    std::mt19937 draw(1);
    for (int trial = 0; trial < 300; ++trial) {
      const std::string text = tokenize::random_text(draw, draw() % 300);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, false), true), text);
    }
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(tokenize::built_in_text(), false), true),
              tokenize::built_in_text());
  }
}

TEST(Tokenizer, DecodingUndoesEncodingOfRealTexts) {
  const std::vector<std::string> texts = tokenize::real_texts();
  if (texts.empty()) GTEST_SKIP() << tokenize::kNoRealTexts;
  for (const Tokenizer& tokenizer : of_each_pattern())
    for (const std::string& text : texts)
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, false), true), text);
}

// One encoder over many texts, whatever its cache holds or has dropped, gives the ids of a new one.
TEST(Tokenizer, CacheChangesNoIds) {
  const Tokenizer tokenizer = parse(english());
  Encoder tiny(tokenizer, 4);
  Encoder usual(tokenizer);
  std::mt19937 draw(2);
  for (int trial = 0; trial < 300; ++trial) {
    const std::string text = tokenize::random_text(draw, draw() % 100);
    const Ids expected = tokenizer.encode(text, false);
    for (Encoder* encoder : {&tiny, &usual}) {
      Ids ids = {7};
      encoder->encode(text, ids, false);
      ASSERT_EQ(ids.front(), 7);  // appends
      ids.erase(ids.begin());
      ASSERT_EQ(ids, expected);
    }
  }
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const Tokenizer tokenizer = parse(english());
  const std::string text = tokenize::built_in_text();
  const Ids expected = tokenizer.encode(text, false);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) threads.emplace_back([&] { ids = tokenizer.encode(text, false); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

TEST(Tokenizer, InvalidUtf8IsAnErrorThatNamesTheByte) {
  const Tokenizer tokenizer = parse(english());
  Encoder encoder(tokenizer);
  Ids ids = {1, 2};
  EXPECT_THAT([&] { encoder.encode("good \xC3(", ids, true); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("byte 5")));
  EXPECT_EQ(ids, (Ids{1, 2}));
}

TEST(Tokenizer, UnknownIdsAreErrors) {
  const Tokenizer tokenizer = parse(english());
  for (const int32_t id : {-1, 268, 1 << 30}) {
    EXPECT_THROW(tokenizer.decode(Ids{id}), UserError) << id;
    EXPECT_THROW(tokenizer.token_text(id), UserError) << id;
    EXPECT_THROW(StreamDecoder(tokenizer).push(id), UserError) << id;
  }
}

TEST(Tokenizer, SpecialTokensAreLeftOutUnlessKept) {
  const Tokenizer tokenizer = parse(english());
  const Ids ids = {257, 267, 'x'};
  EXPECT_EQ(tokenizer.decode(ids), "thex");
  EXPECT_EQ(tokenizer.decode(ids, true), "the<|endoftext|>x");
}

TEST(Tokenizer, BrokenUtf8BecomesReplacementCharacters) {
  const Tokenizer tokenizer = parse(english());
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(tokenizer.decode(Ids{'a', 0xE4, 0xB8, 'b'}), "a" + r + "b");
  EXPECT_EQ(tokenizer.decode(Ids{0xFF, 0xFE}), r + r);
  EXPECT_EQ(tokenizer.decode(Ids{0xF0, 0x9F, 0x99}), r);
}

TEST(StreamDecoder, PiecesJoinedAreTheDecodedText) {
  const Tokenizer tokenizer = parse(english());
  std::mt19937 draw(3);
  for (int trial = 0; trial < 1000; ++trial) {
    const bool keep = trial % 2 == 0;
    Ids ids;
    for (size_t i = draw() % 40; i > 0; --i)
      ids.push_back(static_cast<int32_t>(draw() % 2 == 0 ? draw() % 268 : 0x80 + draw() % 0x80));
    StreamDecoder decoder(tokenizer, keep);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_EQ(characters::find_invalid_utf8(piece), std::string::npos);
      joined += piece;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, tokenizer.decode(ids, keep));
    ASSERT_EQ(decoder.finish(), "");
  }
}

TEST(StreamDecoder, HoldsBackAnUnfinishedCharacter) {
  const Tokenizer tokenizer = parse(english());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x99), "");
  EXPECT_EQ(decoder.push(0x82), "\xF0\x9F\x99\x82");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push('x'), "\xEF\xBF\xBDx");
}

}  // namespace
}  // namespace megalith::text
