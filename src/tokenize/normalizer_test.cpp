// SPDX-License-Identifier: Apache-2.0
// Expected texts are those of Hugging Face tokenizers 0.23.3.
#include "tokenize/normalizer.h"

#include <gtest/gtest.h>

#include "tokenize/random_text_fixture.h"

namespace megalith::tokenize {
namespace {

std::string normalize(NormalizerStep step, std::string_view text) {
  return Normalizer({std::move(step)}).apply(text);
}

TEST(Normalizer, Bert) {
  EXPECT_EQ(normalize(BertNormalizer{}, "H\xC3\xA9llo\tW\xC3\x96RLD\x01\x7F\xEF\xBF\xBD!"),
            "hello world!");
  EXPECT_EQ(normalize(BertNormalizer{}, "a\xE4\xB8\xAD\xE6\x96\x87"),
            "a \xE4\xB8\xAD  \xE6\x96\x87 ");
  EXPECT_EQ(normalize(BertNormalizer{}, "x\xC2\xA0\xE2\x80\xA8y\xE2\x80\x8Bz"), "x  yz");
  // U+0130 loses its dot with the accents, and keeps it without.
  EXPECT_EQ(normalize(BertNormalizer{}, "\xC4\xB0"), "i");
  EXPECT_EQ(normalize(BertNormalizer{.strip_accents = false}, "\xC4\xB0"), "i\xCC\x87");
  EXPECT_EQ(normalize(BertNormalizer{.lowercase = false}, "\xC3\x89"), "E");
  EXPECT_EQ(normalize(BertNormalizer{.clean_text = false}, std::string_view("A\0\tB", 4)),
            std::string_view("a\0\tb", 4));
  EXPECT_EQ(normalize(BertNormalizer{.handle_chinese_chars = false}, "\xE4\xB8\xAD"),
            "\xE4\xB8\xAD");
  // What is not a mark without width stays (U+0903).
  EXPECT_EQ(normalize(BertNormalizer{}, "\xE0\xA4\x83"), "\xE0\xA4\x83");
  // No final sigma; a mark of a later Unicode than the table's stays (U+1DF6).
  EXPECT_EQ(normalize(BertNormalizer{}, "\xCE\xA3\xCE\xA3 e\xE1\xB7\xB6"),
            "\xCF\x83\xCF\x83 e\xE1\xB7\xB6");
}

TEST(Normalizer, OtherSteps) {
  using characters::NormalForm;
  EXPECT_EQ(normalize(NormalForm::nfc, "e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(normalize(NormalForm::nfd, "\xC3\xA9"), "e\xCC\x81");
  EXPECT_EQ(normalize(NormalForm::nfkc, "\xEF\xAC\x81\xE2\x91\xA0"), "fi1");
  EXPECT_EQ(normalize(NormalForm::nfkd, "\xEF\xAC\x81\xC3\xA9"), "fie\xCC\x81");
  EXPECT_EQ(normalize(NormalForm::nfkc, "\xE3\x8B\xBF"),
            "\xE3\x8B\xBF");  // U+32FF, of Unicode 12.1
  EXPECT_EQ(normalize(Lowercase{}, "A\xC3\x89\xC4\xB0z"), "a\xC3\xA9i\xCC\x87z");
  EXPECT_EQ(normalize(StripAccents{}, "e\xCC\x81\xC3\xA9\xE0\xA4\x83"), "e\xC3\xA9");
  EXPECT_EQ(normalize(Nmt{},
                      "a\x01\tb\x7F\xE2\x80\x8B\xE2\x96\x81"
                      "c"),
            "a b  c");
  EXPECT_EQ(normalize(StripSpace{}, " \n\xE3\x80\x80x y\xC2\xA0 "), "x y");
  EXPECT_EQ(normalize(StripSpace{true, false}, " x "), "x ");
  EXPECT_EQ(normalize(StripSpace{false, true}, " x "), " x");
  EXPECT_EQ(normalize(StripSpace{}, " \n "), "");
  EXPECT_EQ(normalize(Prepend{"_"}, "a"), "_a");
  EXPECT_EQ(normalize(Prepend{"_"}, ""), "");
  EXPECT_EQ(normalize(ReplaceText{"aa", "b"}, "aaaaa"), "bba");
  EXPECT_EQ(normalize(ByteCharacters{}, " \xC3\xA9"), "\xC4\xA0\xC3\x83\xC2\xA9");
}

TEST(Normalizer, StepsFollowEachOther) {
  const Normalizer normalizer({StripSpace{}, Lowercase{}, ReplaceText{" ", "_"}, Prepend{"_"}});
  EXPECT_EQ(normalizer.apply("  A B "), "_a_b");
  EXPECT_EQ(Normalizer().apply("A b"), "A b");
  EXPECT_TRUE(Normalizer().changes_nothing());
}

// Whether the first character that is left is the text's first one: Metaspace asks.
TEST(Normalizer, SaysWhetherTheStartIsKept) {
  const auto keeps = [](NormalizerStep step, std::string_view text) {
    Normalizer::Scratch scratch;
    return Normalizer({std::move(step)}).apply(text, scratch).keeps_start;
  };
  EXPECT_TRUE(keeps(StripSpace{}, "a "));
  EXPECT_FALSE(keeps(StripSpace{}, " a"));
  EXPECT_TRUE(keeps(BertNormalizer{}, "a\x01"));
  EXPECT_FALSE(keeps(BertNormalizer{},
                     "\x01"
                     "a"));
  EXPECT_FALSE(keeps(BertNormalizer{},
                     "\xCC\x81"
                     "a"));
  EXPECT_FALSE(keeps(Nmt{},
                     "\x01"
                     "a"));
  EXPECT_FALSE(keeps(StripAccents{},
                     "\xCC\x81"
                     "a"));
  EXPECT_FALSE(keeps(ReplaceText{"a", ""}, "ab"));
  EXPECT_TRUE(keeps(ReplaceText{"b", ""}, "ab"));
}

// Runs of ASCII go through a table: the same as character by character.
TEST(Normalizer, BertOfWholeTextsIsThatOfTheirCharacters) {
  std::mt19937 draw(3);
  const BertNormalizer no_order{.strip_accents = false};  // whose marks would be put in order
  for (int trial = 0; trial < 300; ++trial) {
    const std::string text = random_text(draw, 40);
    std::string joined;
    for (size_t at = 0; at < text.size();) {
      const uint32_t length = characters::read_utf8(text.data() + at).length;
      joined += normalize(no_order, std::string_view(text).substr(at, length));
      at += length;
    }
    ASSERT_EQ(normalize(no_order, text), joined);
  }
}

}  // namespace
}  // namespace megalith::tokenize
