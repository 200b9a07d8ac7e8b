// SPDX-License-Identifier: Apache-2.0
#include "tokenize/unigram_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"

namespace megalith::tokenize {
namespace {

using Ids = std::vector<int32_t>;
using Pieces = std::vector<std::pair<std::string, double>>;

UnigramModel model_of(const Pieces& pieces, UnigramModel::Options options) {
  std::vector<PieceTrie::Piece> list;
  std::vector<double> scores;
  for (const auto& [text, score] : pieces) {
    list.push_back({text, static_cast<int32_t>(scores.size())});
    scores.push_back(score);
  }
  return {options, list, scores};
}

Ids encode(const UnigramModel& model, std::string_view word) {
  UnigramModel::Scratch scratch;
  Ids ids;
  model.encode_word(word, scratch, ids);
  return ids;
}

TEST(UnigramModel, TakesTheBestSum) {
  const Pieces pieces = {{"<unk>", 0}, {"a", 0},  {"b", 0},   {"c", 0},    {"d", 0},
                         {"cd", 1},    {"ab", 2}, {"abc", 5}, {"abcd", 10}};
  const UnigramModel model = model_of(pieces, {.unknown_id = 0});
  EXPECT_EQ(encode(model, "abcdacdxx"), (Ids{8, 1, 5, 0}));  // neighbouring unknowns are one
  EXPECT_EQ(encode(model, "abc"), (Ids{7}));
  EXPECT_EQ(encode(model, "xaxx"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(model,
                   "\xC3\xA9\xC3\xA9"
                   "b"),
            (Ids{0, 2}));
  EXPECT_EQ(encode(model, "x<unk>x"), (Ids{0}));
  EXPECT_EQ(encode(model, ""), (Ids{}));
}

// Of equal sums the one found first stays: shorter pieces first.
TEST(UnigramModel, TiesGoToTheEarlierStart) {
  const UnigramModel model = model_of({{"a", -1}, {"aa", -2}, {"b", -4}}, {});
  EXPECT_EQ(encode(model, "aa"), (Ids{1}));
  EXPECT_EQ(encode(model, "aaa"), (Ids{0, 1}));
}

TEST(UnigramModel, UnknownCharactersBecomeBytes) {
  Pieces pieces = {{"<unk>", 0}, {"a", -1}, {"<0xC3>", -5}, {"<0xA9>", -5}};
  const UnigramModel model = model_of(pieces, {.unknown_id = 0, .byte_fallback = true});
  EXPECT_EQ(encode(model,
                   "a\xC3\xA9"
                   "a"),
            (Ids{1, 2, 3, 1}));
  EXPECT_EQ(encode(model, "\xC3\xA9\xC3\xA8"), (Ids{0}));  // one byte of the run is missing
  EXPECT_EQ(encode(model, "\xC3\xA9\xC3\xA9"), (Ids{2, 3, 2, 3}));
}

TEST(UnigramModel, MissingUnknownTokenIsAnErrorWhenNeeded) {
  const UnigramModel model = model_of({{"a", -1}}, {});
  EXPECT_EQ(encode(model, "aa"), (Ids{0, 0}));
  EXPECT_THAT([&] { encode(model, "ax"); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("\"x\"")));
}

// Against all ways to cut a word.
TEST(UnigramModel, EqualsASearchThroughAllWays) {
  std::mt19937 draw(5);
  int compared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Pieces pieces = {{"<unk>", -1}};
    for (int i = 0; i < 12; ++i) {
      std::string text(1 + draw() % 3, 'a');
      for (char& c : text) c = static_cast<char>('a' + draw() % 3);
      const bool is_new = std::none_of(pieces.begin(), pieces.end(),
                                       [&](const auto& piece) { return piece.first == text; });
      if (is_new) pieces.emplace_back(text, -1e-3 * static_cast<double>(draw() % 10000));
    }
    std::string word(1 + draw() % 9, 'a');
    for (char& c : word) c = static_cast<char>('a' + draw() % 3);
    double lowest = 0;
    for (const auto& piece : pieces) lowest = std::min(lowest, piece.second);
    double best = -1e300;
    Ids best_ids;
    bool is_tie = false;
    const std::function<void(size_t, double, Ids&)> walk = [&](size_t at, double sum, Ids& ids) {
      if (at == word.size()) {
        if (std::abs(sum - best) < 1e-9) is_tie = true;
        if (sum > best + 1e-9) best = sum, best_ids = ids, is_tie = false;
        return;
      }
      bool has_first = false;
      for (size_t i = 0; i < pieces.size(); ++i)
        if (std::string_view(word).substr(at).starts_with(pieces[i].first)) {
          has_first = has_first || pieces[i].first.size() == 1;
          ids.push_back(static_cast<int32_t>(i));
          walk(at + pieces[i].first.size(), sum + pieces[i].second, ids);
          ids.pop_back();
        }
      if (has_first) return;
      const bool joins = !ids.empty() && ids.back() == 0;
      if (!joins) ids.push_back(0);
      walk(at + 1, sum + lowest - 10, ids);
      if (!joins) ids.pop_back();
    };
    Ids ids;
    walk(0, 0, ids);
    if (is_tie) continue;
    ++compared;
    ASSERT_EQ(encode(model_of(pieces, {.unknown_id = 0}), word), best_ids) << word;
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace megalith::tokenize
