// SPDX-License-Identifier: Apache-2.0
#include "text/token_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/placed_texts.h"
#include "text/tokenizer_fixture.h"

namespace megalith::text {
namespace {

using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

/// What each token stands for.
Texts stretches(const Tokenizer& tokenizer, const std::string& text) {
  const PlacedTokens placed = encode_with_places(tokenizer, text);
  EXPECT_EQ(placed.ids, tokenizer.encode(text, false));
  EXPECT_EQ(placed.places.size(), placed.ids.size());
  Texts parts;
  for (const TextRange& place : placed.places)
    parts.push_back(text.substr(static_cast<size_t>(place.begin),
                                static_cast<size_t>(place.end - place.begin)));
  return parts;
}

TEST(TokenPlaces, OfWordPieces) {
  const Tokenizer tokenizer = parse(small_wordpiece({"the", "cat", "##s", ",", "cafe", "e"}));
  EXPECT_EQ(stretches(tokenizer, " The CATS,\tcaf\xC3\xA9  unheard-of"),
            (Texts{"The", "CAT", "S", ",", "caf\xC3\xA9", "unheard", "-", "of"}));
  // What the normaliser takes away is no token's, an ideograph is a word, and a special token in
  // the text is itself.
  EXPECT_EQ(stretches(tokenizer, "e\xCC\x81\x01 \xE4\xB8\x80x[SEP]the"),
            (Texts{"e", "\xE4\xB8\x80", "x", "[SEP]", "the"}));
  EXPECT_EQ(stretches(tokenizer, ""), Texts{});
}

TEST(TokenPlaces, OfBytes) {
  nlohmann::json file = small_tokenizer({{" ", "b"}, {"a", "b"}});
  EXPECT_EQ(stretches(parse(file), "ab b \xC3\xA9<|endoftext|>b"),
            (Texts{"ab", "b", "", "\xC3\xA9", "\xC3\xA9", "<|endoftext|>", "b"}));
  file["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(stretches(parse(file), "b b"), (Texts{"b", "b"}));
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(stretches(parse(file), "ae\xCC\x81"), (Texts{"", "a", "e\xCC\x81", "e\xCC\x81"}));
}

TEST(TokenPlaces, AreRefusedWhereTheyCannotBeTold) {
  nlohmann::json file = small_wordpiece({"the", "b"});
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "b"}};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(stretches(tokenizer, "the b"), (Texts{"the", "b"}));
  EXPECT_THROW(encode_with_places(tokenizer, "the ab"), UserError);
}

TEST(PlacedTexts, AreWhatTheTokenizerMakes) {
  const Tokenizer tokenizer = parse(small_wordpiece({"the", "cat", "##s"}));
  const auto the = tokenizer.encode("the", false), cats = tokenizer.encode("cats", false);
  const PlacedTexts one = place_texts(tokenizer, cats), two = place_texts(tokenizer, the, cats);
  EXPECT_EQ(one.encoding.ids, tokenizer.encode("cats", true));
  EXPECT_EQ(one.first_begin, 1);
  const Encoding pair = tokenizer.encode_typed("the", "cats", true);
  EXPECT_EQ(two.encoding.ids, pair.ids);
  EXPECT_EQ(two.encoding.type_ids, pair.type_ids);
  EXPECT_EQ(two.first_begin, 1);
  EXPECT_EQ(two.second_begin, 3);
  EXPECT_THAT(place_texts(tokenizer, {}).encoding.ids, ElementsAre(2, 3));
}

}  // namespace
}  // namespace megalith::text
