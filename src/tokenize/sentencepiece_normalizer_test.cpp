// SPDX-License-Identifier: Apache-2.0
#include "tokenize/sentencepiece_normalizer.h"

#include <gtest/gtest.h>

#include <random>

#include "tokenize/chars_map_fixture.h"
#include "tokenize/normalizer.h"
#include "tokenize/random_text_fixture.h"

namespace megalith::tokenize {
namespace {

// Marks are shown as _.
std::string normalized(const SentencePieceNormalizer& step, std::string_view text) {
  std::string out, shown;
  normalize_as_sentencepiece(step, text, out);
  for (size_t at = 0; at < out.size();) {
    const bool is_mark = std::string_view(out).substr(at).starts_with(kSpaceMark);
    shown += is_mark ? '_' : out[at];
    at += is_mark ? kSpaceMark.size() : 1;
  }
  return shown;
}

TEST(SentencePieceNormalizer, SpacesBecomeMarks) {
  const SentencePieceNormalizer usual;
  EXPECT_EQ(normalized(usual, "a b"), "_a_b");
  EXPECT_EQ(normalized(usual, "  a   b "), "_a_b");
  EXPECT_EQ(normalized(usual, ""), "");
  EXPECT_EQ(normalized(usual, "   "), "");
  EXPECT_EQ(normalized(usual, "a\nb\tc"), "_a\nb\tc");
  const SentencePieceNormalizer keeps{.remove_extra_whitespaces = false};
  EXPECT_EQ(normalized(keeps, "  a  b "), "___a__b_");
  EXPECT_EQ(normalized(keeps, " "), "__");
  EXPECT_EQ(normalized({.add_dummy_prefix = false, .remove_extra_whitespaces = false}, " a b"),
            "_a_b");
  EXPECT_EQ(normalized({.escape_whitespaces = false}, "  a  b "), " a b");
  EXPECT_EQ(normalized({.whitespace_as_suffix = true}, " a  b "), "a_b_");
}

TEST(SentencePieceNormalizer, RulesMaySpaceAndUnspace) {
  SentencePieceNormalizer step;
  step.rules = std::make_shared<const CharsMap>(
      compile({{"\n", " "}, {"\x01", ""}, {"ab", "x y"}, {"abc", " z "}, {"q", "  "}}), "test");
  EXPECT_EQ(normalized(step, "\n a\n\nb\n"), "_a_b");
  EXPECT_EQ(normalized(step,
                       "a\x01"
                       "b"),
            "_ab");
  EXPECT_EQ(normalized(step, "ab abc ab"), "_x_y_z_x_y");
  EXPECT_EQ(normalized(step, "\x01"), "");      // the mark is a space at the end
  EXPECT_EQ(normalized(step, "1q2"), "_1__2");  // repeated spaces within a result stay
  EXPECT_EQ(normalized(step, "q1"), "_1");      // but none at the start
  step.remove_extra_whitespaces = false;
  EXPECT_EQ(normalized(step, "\n a\n\nb\n"), "___a__b_");
}

TEST(SentencePieceNormalizer, PiecesOfUsersStay) {
  SentencePieceNormalizer step;
  step.rules = std::make_shared<const CharsMap>(compile({{"a", "A"}}), "test");
  step.kept = std::make_shared<const PieceTrie>(
      std::vector<PieceTrie::Piece>{{"<a>", 1}, {"<a> a", 2}, {" b", 3}});
  EXPECT_EQ(normalized(step, "a<a>a"), "_A<a>A");
  EXPECT_EQ(normalized(step, "a<a> a"), "_A<a>_a");
  EXPECT_EQ(normalized(step, "a  b"), "_A_b");
}

// The short way through ASCII is the same as the long one.
TEST(SentencePieceNormalizer, PlainTextIsCopied) {
  std::mt19937 draw(1);
  SentencePieceNormalizer step, slow;
  step.rules = slow.rules = std::make_shared<const CharsMap>(
      compile({{"e\xCC\x81", "\xC3\xA9"}, {"\t", " "}, {"fi", "f"}, {"'s", "!"}}), "test");
  slow.kept = std::make_shared<const PieceTrie>(std::vector<PieceTrie::Piece>{{"\x7F\x7F\x7F", 1}});
  for (int trial = 0; trial < 3000; ++trial) {
    const std::string text = random_text(draw, draw() % 40) + (trial % 3 == 0 ? "file's e" : "");
    ASSERT_EQ(normalized(step, text), normalized(slow, text)) << text;
  }
}

}  // namespace
}  // namespace megalith::tokenize
