// SPDX-License-Identifier: Apache-2.0
// Unigram and WordLevel files, from text to ids and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "text/tokenizer_fixture.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

const std::string kMark = "\xE2\x96\x81";

json unigram() {
  json file = small_tokenizer({});
  const json metaspace = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "always"}, {"split", true}};
  file["added_tokens"] = {{{"id", 0}, {"content", "<unk>"}, {"special", true}}};
  file["pre_tokenizer"] = file["decoder"] = metaspace;
  file["post_processor"] = nullptr;
  file["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", false}};
  json& vocab = file["model"]["vocab"] = json::array();
  const std::pair<std::string, double> pieces[] = {
      {"<unk>", 0.0}, {kMark, -2.5}, {kMark + "the", -3.25},
      {"cat", -4.0},  {"s", -2.0},   {"c", -6.0}};
  for (const auto& [piece, score] : pieces) vocab.push_back(json::array({piece, score}));
  return file;
}

void expect_refused(json file, const char* pointer, const json& value, const char* reason) {
  file[json::json_pointer(pointer)] = value;
  EXPECT_THAT([&] { parse(file); }, testing::ThrowsMessage<UserError>(testing::HasSubstr(reason)))
      << pointer;
}

TEST(Unigram, EncodesAndDecodes) {
  const Tokenizer tokenizer = parse(unigram());
  EXPECT_EQ(tokenizer.encode("the cats  s", false), (Ids{2, 1, 3, 4, 1, 1, 4}));
  EXPECT_EQ(tokenizer.encode("thexyz<unk>cs", false), (Ids{2, 0, 0, 1, 5, 4}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 1, 3, 4, 1, 1, 4}), "the cats  s");
  EXPECT_EQ(tokenizer.decode(Ids{2, 0, 4}, true), "the<unk>s");
}

TEST(Unigram, WhatIsWrittenReadsAsTheSame) {
  for (const bool unknown : {false, true}) {
    json original = unigram();
    if (!unknown) original["model"]["unk_id"] = nullptr;
    const std::string written = parse(original).to_json();
    EXPECT_EQ(json::parse(written)["model"], original["model"]);
    EXPECT_EQ(Tokenizer::parse(written, "again").to_json(), written);
  }
}

TEST(Unigram, BadFilesAreRefused) {
  expect_refused(unigram(), "/model/unk_id", 6, "unk_id is 6, and there are 6 pieces");
  expect_refused(unigram(), "/model/unk_id", -1, "unk_id");
  expect_refused(unigram(), "/model/vocab", json::object(), "vocab");
  expect_refused(unigram(), "/model/vocab/2", json::array({"a"}), "model.vocab[2]");
  expect_refused(unigram(), "/model/vocab/2", json::array({"a", "b"}), "model.vocab[2]");
  expect_refused(unigram(), "/model/vocab/2", json::array({kMark, 1.0}), "two ids");
  expect_refused(unigram(), "/pre_tokenizer/replacement", "ab", "one character");
  expect_refused(unigram(), "/pre_tokenizer/add_prefix_space", false, "differ");
  expect_refused(unigram(), "/pre_tokenizer/prepend_scheme", "last", "last");
  expect_refused(unigram(), "/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", ""}},
                 "precompiled_charsmap");
  expect_refused(unigram(), "/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}},
                 "base64");
}

TEST(Unigram, OldFilesDoNotNameTheirModel) {
  json file = unigram();
  file["model"].erase("type");
  EXPECT_EQ(parse(file).encode("cats", false), (Ids{1, 3, 4}));
}

TEST(WordLevel, WordsAreTokensOrUnknown) {
  json file = small_tokenizer({});
  file["added_tokens"] = {{{"id", 9}, {"content", "[X]"}}};
  file["pre_tokenizer"] = {{"type", "Whitespace"}};
  file["post_processor"] = file["decoder"] = nullptr;
  file["model"] = {{"type", "WordLevel"},
                   {"unk_token", "[UNK]"},
                   {"vocab", {{"[UNK]", 0}, {"the", 1}, {"!", 2}}}};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("the cat!!the ! [X]", false), (Ids{1, 0, 0, 1, 2, 9}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 9}), "the ! [X]");
  EXPECT_EQ(json::parse(tokenizer.to_json())["model"], file["model"]);
  file["model"]["unk_token"] = "?";
  EXPECT_EQ(parse(file).encode("the", false), (Ids{1}));
  EXPECT_THAT([&] { parse(file).encode("the cat", false); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("\"cat\"")));
}

// The ids are those of Hugging Face tokenizers 0.23.3.
TEST(Unigram, T5GivesTheKnownIds) {
  const std::filesystem::path path =
      std::filesystem::path(MEGA_SOURCE_DIR) / "../shared/data/tokenizers/t5-small/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Tokenizer tokenizer = Tokenizer::load(path);
  struct Case {
    std::string_view text;
    Ids ids;
  };
  const Case cases[] = {
      {"", {1}},
      {"Hello, World! The quick brown fox.", {8774, 6, 1150, 55, 37, 1704, 4216, 3, 20400, 5, 1}},
      {"  leading and  double   spaces ", {1374, 11, 1486, 4856, 1}},
      {"caf\303\251 cafe\314\201 \357\254\201ne\357\254\201\314\201 \342\204\242\314\201",
       {11949, 11949, 1399, 89, 23, 3, 2305, 1}},
      {"a\015\012b\011c\302\240d", {3, 9, 3, 115, 3, 75, 3, 26, 1}},
      {"\344\270\255\346\226\207 \360\237\231\202 x", {3, 2, 3, 2, 3, 226, 1}},
      {"<extra_id_0> and <pad></s>", {32099, 11, 0, 1, 1}},
      {"\342\226\201the \342\226\201", {8, 1}},
      {"\342\200\213\302\255\001z \341\272\233\314\243", {3, 575, 172, 3, 2, 1}}};
  for (const Case& known : cases)
    EXPECT_EQ(tokenizer.encode(known.text, true), known.ids) << known.text;
}

}  // namespace
}  // namespace megalith::text
