// SPDX-License-Identifier: Apache-2.0
// The bytes of tokens, joined, are what the tokenizer decodes.
#include "grammars/token_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "characters/utf8.h"
#include "text/tokenizer_fixture.h"

namespace megalith::grammars {
namespace {

using nlohmann::json;

const std::string kMark = "\xE2\x96\x81";

json with_bytes(json file, bool strips) {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {kMark, 2},         {"a", 3},   {kMark + "a", 4},
                {"\"", 5},    {"é", 6},   {kMark + kMark, 7}, {"<0x>", 8}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 9 + byte;
  file["pre_tokenizer"] = file["post_processor"] = nullptr;
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = json::array();
  file["model"]["byte_fallback"] = true;
  file["model"]["unk_token"] = "<unk>";
  file["added_tokens"] = {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
                          {{"id", 1}, {"content", "<s>"}, {"special", true}}};
  json steps = {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (strips) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  return file;
}

/// Random ids whose bytes are UTF-8 when joined must decode to them.
void expect_joined(const text::Tokenizer& tokenizer) {
  const TokenTexts tokens = token_texts(tokenizer);
  std::mt19937 random(9);
  int compared = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<int32_t> ids;
    std::string joined;
    bool fits = true;
    for (size_t left = 1 + random() % 4; left > 0; --left) {
      const auto id =
          static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer.vocab_size()));
      const std::string& text = tokens.texts[static_cast<size_t>(id)];
      fits &= !text.empty() && !(ids.empty() && tokens.differs_first[static_cast<size_t>(id)]);
      ids.push_back(id);
      joined += text;
    }
    // No grammar lets a character begin before the last one is whole.
    if (!fits || characters::find_invalid_utf8(joined) != std::string::npos) continue;
    ++compared;
    EXPECT_EQ(tokenizer.decode(ids), joined);
  }
  EXPECT_GT(compared, 500);
}

TEST(TokenTexts, JoinedAreWhatIsDecoded) {
  const json bytes = text::small_tokenizer({{"a", "b"}, {"\xC3", "\xA9"}, {" ", "a"}});
  expect_joined(text::parse(bytes));
  expect_joined(text::parse(with_bytes(bytes, true)));
  expect_joined(text::parse(with_bytes(bytes, false)));
}

TEST(TokenTexts, ByHand) {
  const json bytes = text::small_tokenizer({{"a", "b"}});
  const TokenTexts plain = token_texts(text::parse(bytes));
  EXPECT_EQ(plain.texts[256], "ab");
  EXPECT_EQ(plain.texts[0xC3], "\xC3");
  EXPECT_EQ(plain.texts[257], "");  // <|endoftext|>
  const TokenTexts pieces = token_texts(text::parse(with_bytes(bytes, true)));
  EXPECT_EQ(pieces.texts[0], "");
  EXPECT_EQ(pieces.texts[4], " a");
  EXPECT_EQ(pieces.texts[9 + 0xC3], "\xC3");
  EXPECT_EQ(pieces.texts[9 + '\n'], "\n");
  EXPECT_EQ(pieces.texts[8], "<0x>");
  EXPECT_TRUE(pieces.differs_first[4] && pieces.differs_first[2] && pieces.differs_first[9 + ' ']);
  EXPECT_FALSE(pieces.differs_first[3] || pieces.differs_first[9 + 0xC3]);
}

// A rule that is applied to the whole text may join what two tokens hold.
TEST(TokenTexts, DecodersThatChangeTheWholeAreRefused) {
  json file = text::small_tokenizer({});
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "ByteLevel"}},
                       {{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "c"}}}}};
  EXPECT_THAT([&] { token_texts(text::parse(file)); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("once it is whole")));
}

}  // namespace
}  // namespace megalith::grammars
