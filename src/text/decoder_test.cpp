// SPDX-License-Identifier: Apache-2.0
// Expected texts are those of Hugging Face tokenizers 0.23.3.
#include "text/decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "characters/utf8.h"

namespace megalith::text {
namespace {

using List = std::vector<std::string>;

std::string decode(std::vector<DecoderStep> steps, const List& tokens) {
  const Decoder decoder(std::move(steps));
  DecoderRun run(decoder);
  std::string text;
  for (const std::string& token : tokens) run.push(token, text);
  run.finish(text);
  return text;
}

const std::string kMark = "\xE2\x96\x81";

TEST(Decoder, EachStep) {
  EXPECT_EQ(decode({SpaceDecoder{}}, {"a", "b", ""}), "a b ");
  EXPECT_EQ(decode({WordPieceDecoder{}}, {"un", "##aff", "##able", "is", "##", "n't", "."}),
            "unaffable isn't.");
  EXPECT_EQ(decode({WordPieceDecoder{"##", false}}, {"##a", "b", "."}), "##a b .");
  EXPECT_EQ(decode({WordPieceDecoder{}}, {"x", "do not", "' ", "'s"}), "x don't''s");
  EXPECT_EQ(decode({MetaspaceDecoder{kMark, true}}, {kMark + kMark + "a", kMark + "b" + kMark}),
            "a b ");
  EXPECT_EQ(decode({MetaspaceDecoder{kMark, false}}, {kMark + "a"}), " a");
  EXPECT_EQ(decode({SuffixDecoder{}}, {"a", "b</w>", "c</w>"}), "ab c");
  EXPECT_EQ(decode({ByteFallbackDecoder{}}, {"<0xC3>", "<0xA9>", "x", "<0xFF>", "<0x41>"}),
            "\xC3\xA9x\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(decode({StripDecoder{"_", 1, 2}}, {"__a___", "_", "b"}), "_a_b");
  EXPECT_EQ(decode({ReplaceDecoder{"ab", "c"}}, {"a", "bab"}), "abc");
  EXPECT_EQ(decode({ByteLevelDecoder{}}, {"\xC4\xA0"
                                          "a\xC3\x83",
                                          "\xC2\xA9", " "}),
            " a\xC3\xA9 ");
}

TEST(Decoder, StepsAfterAFuseSeeOneToken) {
  EXPECT_EQ(decode({FuseDecoder{}, StripDecoder{"_", 2, 0}}, {"_", "_", "_a", "_b"}), "_a_b");
  EXPECT_EQ(decode({FuseDecoder{}, StripDecoder{"_", 0, 1}}, {"a_", "_b_"}), "a__b");
  EXPECT_EQ(decode({FuseDecoder{}, ReplaceDecoder{"ab", "c"}}, {"a", "b"}), "c");
  EXPECT_EQ(decode({FuseDecoder{}, SuffixDecoder{}}, {"a</w>", "b</w>"}), "ab");
  EXPECT_EQ(decode({ByteLevelDecoder{}, WordPieceDecoder{}}, {"a", "##b"}), "a##b");
}

// However steps hold text back, no piece ends within a character, and a run can be used again.
TEST(Decoder, StreamsWholeCharacters) {
  const List spellings = {"<0xC3>", "<0xA9>",   kMark,      "a", kMark + "b", "</w>",
                          "##c",    "\xC3\x83", "\xC2\xA9", " ", "_"};
  const std::vector<std::vector<DecoderStep>> chains = {
      {ReplaceDecoder{kMark, " "}, ByteFallbackDecoder{}, FuseDecoder{}, StripDecoder{" ", 1, 0}},
      {ByteLevelDecoder{}},
      {ByteLevelDecoder{}, StripDecoder{"_", 1, 1}},
      {SuffixDecoder{}, WordPieceDecoder{}},
      {ByteFallbackDecoder{}, MetaspaceDecoder{kMark, true}}};
  std::mt19937 draw(1);
  for (const auto& chain : chains) {
    const Decoder decoder(chain);
    DecoderRun used(decoder);
    for (int trial = 0; trial < 500; ++trial) {
      List tokens(draw() % 12);
      for (std::string& token : tokens) token = spellings[draw() % spellings.size()];
      std::string text, joined;
      for (const std::string& token : tokens) {
        std::string piece;
        used.push(token, piece);
        ASSERT_EQ(characters::find_invalid_utf8(piece), std::string::npos);
        joined += piece;
      }
      used.finish(joined);
      ASSERT_EQ(joined, decode(chain, tokens));
    }
  }
}

}  // namespace
}  // namespace megalith::text
