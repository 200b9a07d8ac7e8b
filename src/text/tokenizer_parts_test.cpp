// SPDX-License-Identifier: Apache-2.0
// What other kinds of files mean beyond a tokenizer.json, and that it survives being written as
// one.
#include "text/tokenizer_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/tokenizer_data.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;
using ::testing::HasSubstr;

const std::string kMark = "\xE2\x96\x81";

json sentencepiece_stages(const char* type) {
  const json normalizer = {{"type", "Sequence"},
                           {"normalizers", json::array()},
                           {"sentencepiece", {{"remove_extra_whitespaces", false}}}};
  const json decoder = {{"type", "Sequence"},
                        {"decoders", json::array()},
                        {"sentencepiece",
                         {{"unknown", "<unk>"},
                          {"unknown_surface", " ?? "},
                          {"remove_extra_whitespaces", false},
                          {"byte_fallback", true}}}};
  json model = {
      {"type", type}, {"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}};
  if (std::string_view(type) == "Unigram") model["sentencepiece"] = json::object();
  return {{"normalizer", normalizer}, {"decoder", decoder}, {"model", model}};
}

// <unk>, <s>, 256 bytes, then the texts.
TokenizerParts pieces(const char* type, const std::vector<std::pair<std::string, double>>& texts) {
  TokenizerParts parts;
  parts.stages = sentencepiece_stages(type).dump();
  parts.tokens = {{0, "<unk>"}, {1, "<s>"}};
  for (int byte = 0; byte < 256; ++byte)
    parts.tokens.push_back({byte + 2, fmt::format("<0x{:02X}>", byte)});
  for (const auto& [text, score] : texts)
    parts.tokens.push_back({static_cast<int32_t>(parts.tokens.size()), text, score});
  parts.added_tokens = {{.id = 1, .content = "<s>", .special = true, .in_text = false}};
  return parts;
}
constexpr int32_t kFirst = 258;

// The same after it was written and read.
Tokenizer both(TokenizerParts parts) {
  const Tokenizer tokenizer = assemble_tokenizer(std::move(parts), "test");
  Tokenizer again = Tokenizer::parse(tokenizer.to_json(), "again");
  EXPECT_EQ(again.to_json(), tokenizer.to_json());
  return again;
}

TEST(TokenizerParts, MergesOfOneRankGoFromTheLeft) {
  TokenizerParts parts = pieces("BPE", {{kMark, 0}, {"a", 0}, {"aa", 0}, {"aaa", 0}});
  const int32_t a = kFirst + 1, aa = kFirst + 2;
  parts.merges = {{a, a}, {a, aa}, {aa, a}};
  const auto ids = [](const Tokenizer& t) { return t.encode("aaaaa", false); };
  // By place in the list, (a, aa) comes before (aa, a).
  EXPECT_EQ(ids(both(parts)), (Ids{kFirst, aa, kFirst + 3}));
  parts.merge_ranks = {0, 0, 0};
  EXPECT_EQ(ids(both(parts)), (Ids{kFirst, kFirst + 3, aa}));
  parts.merge_ranks = {0, 1, 1};  // (a, a) twice, then what is leftmost
  EXPECT_EQ(ids(both(parts)), (Ids{kFirst, aa, kFirst + 3}));
}

TEST(TokenizerParts, WordsAreCutAtMarksWhereNoMergeCrosses) {
  TokenizerParts parts = pieces("BPE", {{kMark, 0}, {"a", 0}, {kMark + "a", 0}, {"a" + kMark, 0}});
  const int32_t mark = kFirst, a = kFirst + 1;
  parts.merges = {{mark, a}};
  const Tokenizer cut = both(parts);
  EXPECT_TRUE(cut.data().cuts_at_marks);
  EXPECT_EQ(cut.encode("a aa", false), (Ids{kFirst + 2, kFirst + 2, a}));
  parts.merges = {{a, mark}};
  const Tokenizer whole = both(parts);
  EXPECT_FALSE(whole.data().cuts_at_marks);
  EXPECT_EQ(whole.encode("a aa", false), (Ids{mark, kFirst + 3, a, a}));
}

TEST(TokenizerParts, TokensNotOfTextsAreNotFoundInThem) {
  TokenizerParts parts = pieces("BPE", {{kMark, 0}, {"<", 0}, {"s", 0}, {">", 0}});
  const Ids spelled{kFirst, kFirst + 1, kFirst + 2, kFirst + 3};
  EXPECT_EQ(both(parts).encode("<s>", true), spelled);
  EXPECT_EQ(both(parts).decode(Ids{1, kFirst + 2}, true), "<s>s");
  EXPECT_EQ(both(parts).decode(Ids{1, kFirst + 2}), "s");
  parts.added_tokens[0].in_text = true;
  EXPECT_EQ(both(parts).encode("<s>", true), (Ids{1}));
}

TEST(TokenizerParts, SentencePieceDecodesAsItsLibrary) {
  const Tokenizer t = both(pieces("BPE", {{kMark, 0}, {kMark + "a", 0}, {"b", 0}}));
  const int32_t mark = kFirst, a = kFirst + 1, b = kFirst + 2;
  const auto byte = [](int value) { return 2 + value; };
  EXPECT_EQ(t.decode(Ids{a, b, a}), "ab a");
  EXPECT_EQ(t.decode(Ids{mark, a}), " a");  // only the first mark was put there
  EXPECT_EQ(t.decode(Ids{1, a}), "a");      // what stands for no text is none
  EXPECT_EQ(t.decode(Ids{0, a}), " ??  a");
  EXPECT_EQ(t.decode(Ids{byte(0xC3), byte(0xA9), a}), "\xC3\xA9 a");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(t.decode(Ids{byte(0xE4), byte(0xB8), byte('x')}), bad + bad + "x");
  EXPECT_EQ(t.decode(Ids{byte(0xC3), 1, byte(0xA9)}), bad + bad);  // a run ends there
  StreamDecoder stream(t);
  std::string streamed;
  for (const int32_t id : Ids{a, byte(0xC3), byte(0xA9), 1, byte(0xFF), b})
    streamed += stream.push(id);
  EXPECT_EQ(streamed + stream.finish(), "a\xC3\xA9" + bad + "b");
}

TEST(TokenizerParts, SentencePieceUnigramKnowsWhatATextIsCutInto) {
  TokenizerParts parts =
      pieces("Unigram", {{kMark, -3}, {"a", -2}, {"ab", -1}, {"b", -2}, {"<s>b", -1}});
  parts.unused_ids = {kFirst + 2};
  parts.added_tokens.push_back({.id = kFirst + 4, .content = "<s>b", .normalized = true});
  const Tokenizer t = both(parts);
  EXPECT_EQ(t.encode("ab", false), (Ids{kFirst, kFirst + 1, kFirst + 3}));
  EXPECT_EQ(t.encode("<s>b", false), (Ids{kFirst, kFirst + 4}));
  EXPECT_EQ(t.encode("\xC3\xA9", false), (Ids{kFirst, 2 + 0xC3, 2 + 0xA9}));
}

TEST(TokenizerParts, CharactersEndWhereATokenIsLeftOut) {
  TokenizerParts parts;
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json decoder = bytes;
  parts.tokens = {{0, "\xC3\x83"}, {1, "\xC2\xA9"}, {2, "<s>"}};  // the bytes C3 and A9
  parts.added_tokens = {{.id = 2, .content = "<s>", .special = true}};
  const auto decoded = [&] {
    parts.stages =
        json{{"pre_tokenizer", bytes}, {"decoder", decoder}, {"model", {{"type", "BPE"}}}}.dump();
    return both(parts).decode(Ids{0, 2, 1});
  };
  EXPECT_EQ(decoded(), "\xC3\xA9");
  decoder["parted"] = true;
  EXPECT_EQ(decoded(), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(TokenizerParts, PartsThatDoNotFitAreRefused) {
  const auto fault = [](const TokenizerParts& parts) -> std::string {
    try {
      assemble_tokenizer(parts, "test");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  TokenizerParts parts = pieces("Unigram", {{"a", 0}});
  parts.tokens.back().id = 300;
  EXPECT_THAT(fault(parts), HasSubstr("pieces have ids up to 300"));
  parts = pieces("Unigram", {{"a", 0}});
  parts.tokens.erase(parts.tokens.begin() + 5);
  EXPECT_NE(fault(parts), "");
  json file = json::parse(assemble_tokenizer(pieces("BPE", {{"a", 0}}), "test").to_json());
  file["model"]["merge_ranks"] = {0};
  EXPECT_THROW(Tokenizer::parse(file.dump(), "test"), UserError);
}

}  // namespace
}  // namespace megalith::text
