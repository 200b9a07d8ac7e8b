// SPDX-License-Identifier: Apache-2.0
#include "tokenize/sentencepiece_unigram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "tokenize/random_text_fixture.h"

namespace megalith::tokenize {
namespace {

using Ids = std::vector<int32_t>;
using Piece = SentencePieceUnigram::Piece;

Ids encode(const SentencePieceUnigram& model, std::string_view text) {
  SentencePieceUnigram::Scratch scratch;
  WordCache plans(64);
  Ids ids;
  model.encode(text, scratch, plans, ids);
  return ids;
}

TEST(SentencePieceUnigram, TheBestSumWins) {
  const SentencePieceUnigram model(
      {}, {{"a", 1, -2, false}, {"b", 2, -2, false}, {"ab", 3, -3, false}, {"abb", 4, -9, false}});
  EXPECT_EQ(encode(model, "ab"), (Ids{3}));
  EXPECT_EQ(encode(model, "abb"), (Ids{3, 2}));
  EXPECT_EQ(encode(model, "axyb"), (Ids{1, 0, 2}));  // one unknown token for both
  EXPECT_EQ(encode(model, ""), Ids{});
}

TEST(SentencePieceUnigram, PiecesOfUsersWin) {
  const SentencePieceUnigram model(
      {}, {{"a", 1, -2, false}, {"b", 2, -2, false}, {"ab", 3, -1, false}, {"bb", 4, 0, true}});
  EXPECT_EQ(encode(model, "abb"), (Ids{1, 4}));
  // Where scores are positive, theirs is the highest for each byte: 3 - 0.1 against 1 + 0.9 + 0.9.
  const SentencePieceUnigram positive(
      {}, {{"a", 1, 1, false}, {"b", 2, 0.9F, false}, {"ab", 3, 1, false}, {"abb", 4, 0, true}});
  EXPECT_EQ(encode(positive, "abb"), (Ids{4}));
}

TEST(SentencePieceUnigram, UnknownCharactersBecomeBytes) {
  SentencePieceUnigram::Options options{.unknown_id = 0, .byte_fallback = true, .byte_ids = {}};
  for (int32_t byte = 0; byte < 256; ++byte)
    options.byte_ids[static_cast<size_t>(byte)] = 100 + byte;
  const SentencePieceUnigram model(options, {{"a", 1, -2, false}});
  EXPECT_EQ(encode(model, "a\xC3\xA9z"), (Ids{1, 100 + 0xC3, 100 + 0xA9, 100 + 'z'}));
}

// The definition by plain loops: of each end the best way, the first of equals.
Ids by_definition(const std::vector<Piece>& pieces, std::string_view text) {
  float lowest = std::numeric_limits<float>::max(), highest = 0.1F;
  std::map<std::string_view, Piece> known;
  for (const Piece& piece : pieces) {
    known.emplace(piece.text, piece);
    if (piece.user_defined) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  struct Way {
    bool found = false;
    float score = 0;
    size_t begin = 0;
    int32_t id = 0;
  };
  std::vector<Way> ways(text.size() + 1);
  ways[0].found = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t next = begin + characters::read_utf8(text.data() + begin).length;
    bool has_character = false;
    if (const float sum = ways[begin].score; sum < -100000) {
      for (Way& way : ways)
        if (&way >= &ways[begin] && way.found) way.score -= sum;
    }
    const auto offer = [&](size_t end, float score, int32_t id) {
      const float sum = score + ways[begin].score;
      if (!ways[end].found || sum > ways[end].score) ways[end] = {true, sum, begin, id};
    };
    for (size_t end = begin + 1; end <= text.size(); ++end) {
      const auto piece = known.find(text.substr(begin, end - begin));
      if (piece == known.end()) continue;
      const float bonus = static_cast<float>(end - begin) * highest - 0.1F;
      offer(end, piece->second.user_defined ? bonus : piece->second.score, piece->second.id);
      has_character = has_character || end == next;
    }
    if (!has_character) offer(next, lowest - 10, 0);
    begin = next;
  }
  Ids ids;
  for (size_t end = text.size(); end > 0; end = ways[end].begin)
    if (ways[end].id != 0 || ids.empty() || ids.front() != 0) ids.insert(ids.begin(), ways[end].id);
  return ids;
}

TEST(SentencePieceUnigram, IsItsDefinition) {
  std::mt19937 draw(1);
  const std::string mark = "\xE2\x96\x81";
  std::vector<std::string> texts = {mark,  "a",  "b",        "c",        "ab",       "bc",
                                    "abc", "ca", "cab",      "bca",      mark + "a", mark + "ab",
                                    "aa",  "cc", "\xC3\xA9", "a\xC3\xA9"};
  for (int trial = 0; trial < 600; ++trial) {
    if (trial == 300) texts.push_back("b" + mark);  // from here on words are not cut
    std::vector<Piece> pieces;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (draw() % 4 == 0 && i > 0) continue;
      const float score = -static_cast<float>(draw() % 64) / (trial % 2 == 0 ? 4 : 7) -
                          (trial % 5 == 0 ? 3000.0F : 0);
      pieces.push_back({texts[i], static_cast<int32_t>(i) + 1, score, draw() % 10 == 0});
    }
    const SentencePieceUnigram model({}, pieces);
    std::string text;
    for (size_t i = draw() % 400; i > 0; --i) text += texts[draw() % texts.size()];
    ASSERT_EQ(encode(model, text), by_definition(pieces, text)) << text;
  }
}

// Sums round, and begin anew below -100,000.
TEST(SentencePieceUnigram, SumsRoundAsInTheLibrary) {
  const SentencePieceUnigram model({}, {{"x", 1, -1024, false},
                                        {"a", 2, -1, false},
                                        {"b", 3, -1, false},
                                        {"ab", 4, -2.001F, false}});
  const auto last = [&](size_t count) {
    Ids ids = encode(model, std::string(count, 'x') + "ab");
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count));
    return ids;
  };
  EXPECT_EQ(last(0), (Ids{2, 3}));
  EXPECT_EQ(last(97), (Ids{4}));     // -99,328: ab is as good, and comes first
  EXPECT_EQ(last(98), (Ids{2, 3}));  // -100,352: from 0
}

}  // namespace
}  // namespace megalith::tokenize
