// SPDX-License-Identifier: Apache-2.0
// SentencePiece models made byte by byte. tests/oracle/vocabularies_oracle.py holds published ones
// and trained ones to the library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "vocabularies/piece_fixture.h"
#include "vocabularies/sentencepiece_file.h"

namespace megalith::vocabularies {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::HasSubstr;

const std::string kMark = "\xE2\x96\x81";
constexpr uint64_t kUnigram = 1, kBpe = 2, kWord = 3, kCharacters = 4;

text::Tokenizer load(const std::string& file) {
  return make_tokenizer(read_sentencepiece(file, "test"), "test");
}

std::string fault(const std::string& file) {
  try {
    load(file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SentencePiece, MergesGoByScoreAndEqualOnesFromTheLeft) {
  const std::vector<FilePiece> pieces = {{kMark, -9}, {"a", -9},   {"b", -9},         {"ab", -1},
                                         {"ba", -1},  {"aba", -2}, {kMark + "ab", -3}};
  const text::Tokenizer t = load(sentencepiece_file(pieces, kBpe, false));
  const int32_t mark = 3, a = 4, b = 5, ab = 6, ba = 7, aba = 8, word = 9;
  EXPECT_EQ(t.encode("ab", true), (Ids{word}));
  EXPECT_EQ(t.encode("ba", true), (Ids{mark, ba}));
  EXPECT_EQ(t.encode("aba", true), (Ids{mark, aba}));
  EXPECT_EQ(t.encode("bab", true), (Ids{mark, ba, b}));  // both score -1
  EXPECT_EQ(t.encode("a  a", true), (Ids{mark, a, mark, a}));
  EXPECT_EQ(t.encode("axyb", true), (Ids{mark, a, 0, b}));
  EXPECT_EQ(t.decode(Ids{word, 0, ab}), "ab \xE2\x81\x87 ab");
}

TEST(SentencePiece, ControlPiecesAreOfNoTextAndUsersPiecesOfEvery) {
  const std::vector<FilePiece> pieces = {{kMark, -9}, {"<", -9},     {"s", -9},
                                         {">", -9},   {"<s", -1, 1}, {"s>s", 0, 4}};
  const text::Tokenizer t = load(sentencepiece_file(pieces, kBpe, true));
  const int32_t first = 259;
  EXPECT_EQ(t.encode("<s>", true), (Ids{first, first + 4, first + 3}));
  EXPECT_EQ(t.encode("<s>s", true), (Ids{first, first + 1, first + 5}));
  EXPECT_EQ(t.encode("\xC3\xA9", true), (Ids{first, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(t.decode(Ids{1, first + 5, 2}), "s>s");
  EXPECT_TRUE(t.is_special(1));
  EXPECT_FALSE(t.is_special(0));
}

TEST(SentencePiece, UnigramAndCharacters) {
  const std::vector<FilePiece> pieces = {{kMark + "a", -1}, {"a", -2},    {"b", -2},
                                         {"ab", -1},        {"bb", 0, 5}, {"[x]", 0, 4}};
  const text::Tokenizer unigram = load(sentencepiece_file(pieces, kUnigram, false));
  EXPECT_EQ(unigram.encode("aabb", true), (Ids{3, 6, 5}));
  EXPECT_EQ(unigram.encode("a[x]b", true), (Ids{3, 8, 5}));
  EXPECT_EQ(unigram.decode(Ids{3, 8, 5}), "a[x]b");
  const text::Tokenizer characters = load(sentencepiece_file(pieces, kCharacters, false));
  EXPECT_EQ(characters.encode("ab", true), (Ids{0, 4, 5}));
}

TEST(SentencePiece, TheNormalizerIsTheFiles) {
  const std::vector<FilePiece> pieces = {{kMark, -9}, {"a", -9}, {"a" + kMark, -1}};
  const auto ids = [&](const Message& normalizer, std::string_view text,
                       const Message& trainer = {}) {
    return load(sentencepiece_file(pieces, kBpe, false, normalizer, trainer)).encode(text, true);
  };
  EXPECT_EQ(ids({}, " a  a "), (Ids{3, 5, 4}));
  EXPECT_EQ(ids(Message().varint(3, 0), " a  a "), (Ids{5, 4}));
  EXPECT_EQ(ids(Message().varint(4, 0), " a  a "), (Ids{3, 3, 5, 3, 5}));
  EXPECT_EQ(ids(Message().varint(5, 0), "a"), (Ids{0, 4}));
  EXPECT_EQ(ids({}, "a a", Message().varint(24, 1)), (Ids{5, 5}));
}

TEST(SentencePiece, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<FilePiece> pieces = {{kMark, 0}, {"a", 0}, {"b", 0}};
  const auto with = [&](FilePiece piece, uint64_t type = kBpe, bool bytes = false) {
    std::vector<FilePiece> more = pieces;
    more.push_back(std::move(piece));
    return fault(sentencepiece_file(more, type, bytes));
  };
  EXPECT_EQ(with({"ab", 0}), "");
  EXPECT_THAT(with({"ab", 0}, kWord), HasSubstr("whole words (WORD)"));
  EXPECT_THAT(with({"ab", 0}, 9), HasSubstr("model type 9"));
  EXPECT_THAT(with({"ab", 0, 5}), HasSubstr("unused pieces"));
  EXPECT_EQ(with({"ab", 0, 5}, kUnigram), "");
  EXPECT_EQ(with({"xy", 0, 5}), "");
  EXPECT_THAT(with({"ax", 0}), HasSubstr("a character of \"ax\" that is no piece"));
  EXPECT_THAT(with({"", 0}), HasSubstr("a piece is empty"));
  EXPECT_THAT(with({"\xFF", 0}), HasSubstr("not UTF-8"));
  EXPECT_THAT(with({"a", 0}), HasSubstr("two ids"));
  EXPECT_THAT(with({"ab", 0, 7}), HasSubstr("unknown type 7"));
  EXPECT_THAT(with({"u", 0, 2}), HasSubstr("two pieces are the unknown one"));
  EXPECT_THAT(with({"<0x00>", 0, 6}), HasSubstr("not byte_fallback"));
  EXPECT_THAT(with({"<0xZZ>", 0, 6}, kBpe, true), HasSubstr("spells no byte"));
  EXPECT_THAT(with({"ab", std::numeric_limits<float>::quiet_NaN()}), HasSubstr("not finite"));
  const std::string good = sentencepiece_file(pieces, kBpe, false);
  const Message denormalizer = Message().bytes(2, "x");
  EXPECT_THAT(fault(good + Message().bytes(5, denormalizer.str()).str()),
              HasSubstr("denormalizer"));
  EXPECT_THAT(fault(good.substr(0, good.size() - 3)), HasSubstr("cut off"));
  EXPECT_THAT(fault(Message().bytes(3, Message().bytes(2, "xxxx").str()).str()),
              HasSubstr("no pieces"));
}

}  // namespace
}  // namespace megalith::vocabularies
