// SPDX-License-Identifier: Apache-2.0
#include "tokenize/wordpiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "base/error.h"

namespace megalith::tokenize {
namespace {

using Ids = std::vector<int32_t>;

std::vector<PieceTrie::Piece> pieces(const std::vector<std::string>& tokens) {
  std::vector<PieceTrie::Piece> found;
  for (size_t i = 0; i < tokens.size(); ++i) found.push_back({tokens[i], static_cast<int32_t>(i)});
  return found;
}

// A trie finds what a search through all pieces finds.
TEST(PieceTrie, EqualsASearchThroughThePieces) {
  std::mt19937 draw(1);
  for (int trial = 0; trial < 60; ++trial) {
    const int letters = trial % 3 == 0 ? 256 : 1 + trial % 5;
    const auto random_bytes = [&](size_t most) {
      std::string bytes(draw() % most, 'a');
      for (char& c : bytes) c = static_cast<char>('a' + static_cast<int>(draw() % letters));
      return bytes;
    };
    std::map<std::string, int32_t> known;
    std::vector<std::string> texts;
    for (int i = 0; i < 1 + trial * 20; ++i) {
      const std::string text = random_bytes(9) + 'a';
      if (known.emplace(text, i).second) texts.push_back(text);
    }
    std::vector<PieceTrie::Piece> list;
    for (const std::string& text : texts) list.push_back({text, known[text]});
    const PieceTrie trie(list);
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_bytes(14);
      PieceTrie::Found longest;
      for (size_t size = 1; size <= text.size(); ++size)
        if (const auto found = known.find(text.substr(0, size)); found != known.end())
          longest = {found->second, size};
      const PieceTrie::Found got = trie.longest_prefix(text);
      ASSERT_EQ(got.value, longest.value) << text;
      ASSERT_EQ(got.length, longest.length) << text;
      const auto whole = known.find(text);
      ASSERT_EQ(trie.find(text), whole == known.end() ? -1 : whole->second) << text;
    }
  }
  EXPECT_EQ(PieceTrie().find(""), -1);
  EXPECT_EQ(PieceTrie().longest_prefix("abc").value, -1);
}

TEST(WordPieceModel, TakesTheLongestPieces) {
  const std::vector<std::string> tokens = {"[UNK]", "un",           "##aff",    "##able",
                                           "##a",   "unaffordable", "a",        "##",
                                           "##ab",  "##b",          "\xC3\xA9", "##\xC3\xA9"};
  const WordPieceModel model({}, pieces(tokens));
  const auto encode = [&](std::string_view word) {
    Ids ids;
    model.encode_word(word, ids);
    return ids;
  };
  EXPECT_EQ(encode("unaffable"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode("unaffordable"), (Ids{5}));
  EXPECT_EQ(encode("unab"), (Ids{1, 8}));  // not "##a", "##b"
  EXPECT_EQ(encode("abc"), (Ids{0}));      // no piece for c: the whole word is unknown
  EXPECT_EQ(encode("\xC3\xA9\xC3\xA9"), (Ids{10, 11}));
  EXPECT_EQ(encode("##able"), (Ids{3}));  // a word may be spelled like a later piece
  EXPECT_EQ(encode("##"), (Ids{7}));
}

TEST(WordPieceModel, LimitCountsCharacters) {
  const WordPieceModel model({.unknown = "[UNK]", .continuing_prefix = "", .most_characters = 3},
                             pieces({"[UNK]", "\xC3\xA9"}));
  const auto encode = [&](size_t characters) {
    std::string word;
    for (size_t i = 0; i < characters; ++i) word += "\xC3\xA9";
    Ids ids;
    model.encode_word(word, ids);
    return ids;
  };
  EXPECT_EQ(encode(3), (Ids{1, 1, 1}));
  EXPECT_EQ(encode(4), (Ids{0}));
}

TEST(WordPieceModel, MissingUnknownTokenIsAnErrorWhenNeeded) {
  const WordPieceModel model({}, pieces({"a", "##b"}));
  Ids ids{9};
  model.encode_word("ab", ids);
  EXPECT_EQ(ids, (Ids{9, 0, 1}));
  EXPECT_THAT([&] { model.encode_word("ax", ids); },
              testing::ThrowsMessage<UserError>(
                  testing::AllOf(testing::HasSubstr("\"ax\""), testing::HasSubstr("[UNK]"))));
  EXPECT_EQ(ids, (Ids{9, 0, 1}));
}

}  // namespace
}  // namespace megalith::tokenize
