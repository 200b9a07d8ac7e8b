// SPDX-License-Identifier: Apache-2.0
#include "tokenize/byte_fallback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "text/tokenizer_fixture.h"
#include "tokenize/normalizer.h"
#include "tokenize/random_text_fixture.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

const std::string kMark(tokenize::kSpaceMark);
const std::string kBroken = "\xEF\xBF\xBD";

enum Id : int32_t { unk, bos, mark, a, b, ab, mark_a, c3, a9, newline, space, e_acute_bytes };

// Characters a and b, bytes enough for U+00E9, a new line and a space; x has no token at all.
json small_fallback() {
  json file = small_tokenizer({});
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  const json unmark = {{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}};
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {{{"type", "Prepend"}, {"prepend", kMark}}, replace}}};
  file["pre_tokenizer"] = nullptr;
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {bos}}, {"tokens", {"<s>"}}}}}}};
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {unmark,
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  file["added_tokens"] = {{{"id", unk}, {"content", "<unk>"}, {"special", true}},
                          {{"id", bos}, {"content", "<s>"}, {"special", true}}};
  json& model = file["model"];
  model["byte_fallback"] = true;
  model["unk_token"] = "<unk>";
  model["fuse_unk"] = true;
  model["vocab"] = {
      {"<unk>", unk}, {"<s>", bos},        {kMark, mark},         {"a", a},
      {"b", b},       {"ab", ab},          {kMark + "a", mark_a}, {"<0xC3>", c3},
      {"<0xA9>", a9}, {"<0x0A>", newline}, {"<0x20>", space},     {"<0xC3><0xA9>", e_acute_bytes}};
  model["merges"] = {"a b", kMark + " a"};
  return file;
}

TEST(ByteFallback, TokensOfBytes) {
  EXPECT_EQ(tokenize::byte_token(0x0A), "<0x0A>");
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(tokenize::byte_of_token(tokenize::byte_token(static_cast<uint8_t>(byte))), byte);
  EXPECT_EQ(tokenize::byte_of_token("<0xfe>"), 0xFE);
  EXPECT_EQ(tokenize::byte_of_token("<0x+A>"), 0x0A);
  for (const char* other : {"<0x A>", "<0x0A", "<0x0A>>", "0x0A", "<0xGG>", "<0x\xC3\xA9>", ""})
    EXPECT_EQ(tokenize::byte_of_token(other), std::nullopt) << other;
}

TEST(ByteFallback, MergesCrossWords) {
  const Tokenizer tokenizer = parse(small_fallback());
  EXPECT_EQ(tokenizer.encode("", true), (Ids{bos}));
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{bos, mark_a}));
  EXPECT_EQ(tokenizer.encode("ab b", false), (Ids{mark, ab, mark, b}));
  EXPECT_EQ(tokenizer.encode(" a", false), (Ids{mark, mark_a}));
  EXPECT_EQ(tokenizer.encode("a" + kMark + "a", false), (Ids{mark_a, mark_a}));
}

// Pieces between added tokens each get their mark; an added token gets none.
TEST(ByteFallback, EachPieceIsNormalisedAlone) {
  const Tokenizer tokenizer = parse(small_fallback());
  EXPECT_EQ(tokenizer.encode("<s>", false), (Ids{bos}));
  EXPECT_EQ(tokenizer.encode("a<s>b<s><s>", false), (Ids{mark_a, bos, mark, b, bos, bos}));
  EXPECT_EQ(tokenizer.encode(" <s> a", false), (Ids{mark, mark, bos, mark, mark_a}));
}

TEST(ByteFallback, MissingCharactersBecomeBytesOrUnknown) {
  json file = small_fallback();
  EXPECT_EQ(parse(file).encode("\xC3\xA9\n", false), (Ids{mark, c3, a9, newline}));
  EXPECT_EQ(parse(file).encode("xxab", false), (Ids{mark, unk, ab}));
  EXPECT_EQ(parse(file).encode("x\xC3\xA9x\n", false), (Ids{mark, c3, a9, newline, unk}));
  EXPECT_EQ(parse(file).encode("\xC3\xA8", false), (Ids{mark, unk}));  // one byte of two is there
  file["model"]["fuse_unk"] = false;
  EXPECT_EQ(parse(file).encode("xxab", false), (Ids{mark, unk, unk, ab}));
  file["model"]["unk_token"] = nullptr;
  EXPECT_EQ(parse(file).encode("axxb", false), (Ids{mark, ab}));
  file["model"]["unk_token"] = "b";  // one that the text itself has is not fused with
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(parse(file).encode("bxxb", false), (Ids{mark, b, b, b}));
}

TEST(ByteFallback, BytesMergeLikeCharacters) {
  json file = small_fallback();
  file["model"]["merges"].push_back({"<0xC3>", "<0xA9>"});
  EXPECT_EQ(parse(file).encode("\xC3\xA9", false), (Ids{mark, e_acute_bytes}));
}

TEST(ByteFallback, DecodesByHand) {
  const Tokenizer tokenizer = parse(small_fallback());
  EXPECT_EQ(tokenizer.decode(Ids{bos, mark_a, mark, b}), "a b");
  EXPECT_EQ(tokenizer.decode(Ids{bos, mark_a}, true), "<s> a");
  EXPECT_EQ(tokenizer.decode(Ids{mark, mark, b}), " b");
  EXPECT_EQ(tokenizer.decode(Ids{space, newline}), "\n");
  EXPECT_EQ(tokenizer.decode(Ids{c3, a9, mark}), "\xC3\xA9 ");
  EXPECT_EQ(tokenizer.decode(Ids{c3, bos, a9}), "\xC3\xA9");  // what is left out ends no run
  EXPECT_EQ(tokenizer.decode(Ids{newline, c3, a9, c3, a}),
            kBroken + kBroken + kBroken + kBroken + "a");
  EXPECT_EQ(tokenizer.decode(Ids{a, a9}), "a" + kBroken);
  EXPECT_EQ(tokenizer.token_text(newline), "<0x0A>");
}

TEST(ByteFallback, StreamedPiecesAreTheDecodedText) {
  const Tokenizer tokenizer = parse(small_fallback());
  StreamDecoder runs(tokenizer);
  EXPECT_EQ(runs.push(mark_a), "a");
  EXPECT_EQ(runs.push(c3), "");
  EXPECT_EQ(runs.push(a9), "");  // a later byte could still break the run
  EXPECT_EQ(runs.push(mark), "\xC3\xA9 ");
  EXPECT_EQ(runs.push(newline), "");
  EXPECT_EQ(runs.finish(), "\n");
  EXPECT_EQ(runs.push(mark_a), "a");  // as new
  std::mt19937 draw(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const bool keep = trial % 2 == 0;
    Ids ids(draw() % 20);
    for (int32_t& id : ids) id = static_cast<int32_t>(draw() % 12);
    StreamDecoder decoder(tokenizer, keep);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_EQ(characters::find_invalid_utf8(piece), std::string::npos);
      joined += piece;
    }
    ASSERT_EQ(joined + decoder.finish(), tokenizer.decode(ids, keep));
  }
}

TEST(ByteFallback, WhatIsWrittenReadsAsTheSame) {
  const json original = small_fallback();
  const std::string written = parse(original).to_json();
  EXPECT_EQ(Tokenizer::parse(written, "again").to_json(), written);
  const json again = json::parse(written);
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"})
    EXPECT_EQ(again.at(key), original.at(key)) << key;
  for (const char* key : {"byte_fallback", "fuse_unk", "ignore_merges", "unk_token", "vocab"})
    EXPECT_EQ(again["model"].at(key), original["model"].at(key)) << key;
}

// The ids are those of Hugging Face tokenizers 0.23.3.
TEST(ByteFallback, StoriesFileGivesTheKnownIds) {
  const std::filesystem::path path =
      std::filesystem::path(MEGA_SOURCE_DIR) / "../shared/data/models/stories260K/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Tokenizer tokenizer = Tokenizer::load(path);
  const Tokenizer again = Tokenizer::parse(tokenizer.to_json(), "again");
  struct Case {
    std::string_view text;
    Ids ids;
  };
  const Case cases[] = {
      {"", {1}},
      {"Once upon a time, there was a little girl named Lily.",
       {1, 403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426}},
      {" leading and  double   spaces ", {1,   410, 278, 411, 380, 299, 269, 410, 279, 277,
                                          430, 305, 410, 410, 262, 427, 412, 331, 419, 410}},
      {"line\none\n\n\ttab\r\n",
       {1, 278, 271, 411, 13, 289, 411, 13, 13, 12, 413, 412, 430, 16, 13}},
      {"caf\303\251 \342\200\224 \342\200\234na\303\257ve\342\200\235 \342\200\246",
       {1, 280, 412, 431, 485, 410, 481, 410, 465, 416, 412, 198, 178, 360, 466, 410, 486}},
      {"\344\270\255\346\226\207 \360\237\246\231\360\237\231\202",
       {1, 410, 231, 187, 176, 233, 153, 138, 410, 243, 162, 169, 156, 243, 162, 156, 133}},
      {"<s>Once</s> upon<unk>a", {1, 1, 403, 2, 410, 407, 0, 261}},
      {"</s></s> <s>", {1, 2, 2, 410, 410, 1}},
      {" ", {1, 410, 410}},
      {"\342\226\201the \342\226\201", {1, 410, 265, 410, 410}},
      {"<0x0A>", {1, 410, 504, 477, 444, 477, 447, 505}},
      {"\342\200\212\314\201 9/8 = 3*2 {x}",
       {1, 410, 511, 207, 132, 410, 483, 492, 487, 410, 64, 410, 472, 497, 479, 410, 126, 444,
        128}},
  };
  for (const Case& known : cases) {
    EXPECT_EQ(tokenizer.encode(known.text, true), known.ids) << known.text;
    EXPECT_EQ(again.encode(known.text, true), known.ids) << known.text;
    const bool comes_back = known.text.find("<s>") == known.text.npos &&
                            known.text.find(tokenize::kSpaceMark) == known.text.npos;
    if (comes_back) {
      EXPECT_EQ(tokenizer.decode(known.ids), known.text);
    }
  }
  for (const std::string& text : tokenize::real_texts())
    if (text.find("<unk>") == text.npos) {
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true)), text);
    }
}

}  // namespace
}  // namespace megalith::text
