// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer_fixture.h"
#include "tokenize/random_text_fixture.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;
using testing::HasSubstr;

json file() { return small_tokenizer({{"a", "b"}, {"ab", "c"}, {" ", "abc"}}); }

void expect_refused(const std::string& text, const std::string& reason) {
  EXPECT_THAT([&] { Tokenizer::parse(text, "t.json"); },
              testing::ThrowsMessage<UserError>(
                  testing::AllOf(testing::StartsWith("t.json"), HasSubstr(reason))))
      << text.substr(0, 200);
}
void expect_refused(const std::function<void(json&)>& change, const std::string& reason) {
  json changed = file();
  change(changed);
  expect_refused(changed.dump(), reason);
}

json split_pre_tokenizer(std::string_view regex) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", regex}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"},
             {"add_prefix_space", false},
             {"trim_offsets", true},
             {"use_regex", false}}}}};
}

TEST(TokenizerJson, BothMergeEncodingsMeanTheSame) {
  json old_encoding = file();
  old_encoding["model"]["merges"] = {"#version: 0.2", "a b", "ab c", "\xC4\xA0 abc"};
  for (const std::string text : {"abc abc ab", "xabcabab"})
    EXPECT_EQ(parse(old_encoding).encode(text, false), parse(file()).encode(text, false));
  EXPECT_EQ(parse(old_encoding).encode("abc abc", false), (Ids{257, 258}));
}

TEST(TokenizerJson, WhatIsWrittenReadsAsTheSame) {
  std::mt19937 draw(1);
  json llama = file();
  llama["pre_tokenizer"] =
      split_pre_tokenizer(tokenize::pattern_regex(tokenize::SplitPattern::llama3));
  llama["model"]["ignore_merges"] = true;
  llama["truncation"] = {{"direction", "Right"}, {"max_length", 5}};
  json odd = file();
  odd["added_tokens"].push_back({{"id", 300},
                                 {"content", "<\"quoted\" \xE4\xB8\xAD>"},
                                 {"lstrip", true},
                                 {"normalized", true}});
  odd["model"]["vocab"]
     ["\xC4\xA0"
      "abc x"] = 310;
  odd["model"]["merges"].push_back(
      {"\xC4\xA0"
       "abc",
       " x"});  // only pairs can say this
  odd["model"]["vocab"][" x"] = 311;
  for (const json& original : {file(), llama, odd}) {
    const Tokenizer first = parse(original);
    const std::string written = first.to_json();
    const Tokenizer second = Tokenizer::parse(written, "again");
    EXPECT_EQ(second.to_json(), written);
    EXPECT_EQ(second.vocab_size(), first.vocab_size());
    const json again = json::parse(written);
    for (const char* key :
         {"truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
      EXPECT_EQ(again.at(key), original.at(key)) << key;
    EXPECT_EQ(again["model"]["vocab"], original["model"]["vocab"]);
    for (int trial = 0; trial < 50; ++trial) {
      const std::string text =
          tokenize::random_text(draw, 50) + "abc <\"quoted\" \xE4\xB8\xAD> abc";
      EXPECT_EQ(second.encode(text, true), first.encode(text, true));
    }
  }
}

TEST(TokenizerJson, IgnoreMergesTakesWholeWords) {
  json changed = file();
  changed["model"]["vocab"]["abx"] = 400;
  EXPECT_EQ(parse(changed).encode("abx", false), (Ids{256, 'x'}));
  changed["model"]["ignore_merges"] = true;
  EXPECT_EQ(parse(changed).encode("abx abxx", false), (Ids{400, ' ', 256, 'x', 'x'}));
}

TEST(TokenizerJson, PrefixSpaceIsAddedToEachPartOfTheText) {
  json changed = file();
  changed["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(parse(changed).encode("abc abc", false), (Ids{258, 258}));
  EXPECT_EQ(parse(changed).encode(" abc<|endoftext|>abc", false), (Ids{258, 259, 258}));
}

TEST(TokenizerJson, PostProcessorsAddTheirTokensOnRequest) {
  const json token = {{"id", "<|endoftext|>"}, {"ids", {259}}, {"tokens", {"<|endoftext|>"}}};
  const json special = {{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}};
  const json text_a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json before = {{"type", "TemplateProcessing"},
                       {"single", {special, text_a}},
                       {"pair", json::array()},
                       {"special_tokens", {{"<|endoftext|>", token}}}};
  json around = before;
  around["single"] = {special, text_a, special, special};
  const json roberta = {{"type", "RobertaProcessing"}, {"sep", {"x", 7}}, {"cls", {"y", 8}}};
  const json byte_level = file()["post_processor"];
  const json sequence = {{"type", "Sequence"}, {"processors", {byte_level, before}}};
  const auto with = [](const json& processor) {
    json changed = file();
    changed["post_processor"] = processor;
    return parse(changed);
  };
  EXPECT_EQ(with(before).encode("abc", true), (Ids{259, 257}));
  EXPECT_EQ(with(before).encode("abc", false), (Ids{257}));
  EXPECT_EQ(with(around).encode("abc", true), (Ids{259, 257, 259, 259}));
  EXPECT_EQ(with(sequence).encode("", true), (Ids{259}));
  EXPECT_EQ(with(roberta).encode("abc", true), (Ids{8, 257, 7}));
  EXPECT_THROW(with({{"type", "Sequence"}, {"processors", {before, roberta}}}), UserError);
  EXPECT_EQ(with(nullptr).encode("abc", true), (Ids{257}));
}

TEST(TokenizerJson, NormalizerNfcComposes) {
  json changed = file();
  EXPECT_EQ(parse(changed).encode("e\xCC\x81", false), (Ids{'e', 0xCC, 0x81}));
  changed["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(parse(changed).encode("e\xCC\x81", false), (Ids{0xC3, 0xA9}));
  changed["added_tokens"].push_back({{"id", 300}, {"content", "e\xCC\x81!"}, {"normalized", true}});
  EXPECT_EQ(parse(changed).encode("\xC3\xA9!", false), (Ids{300}));
}

TEST(TokenizerJson, UnknownTokenStandsForMissingBytes) {
  json changed = file();
  changed["model"]["vocab"].erase("x");
  changed["model"]["vocab"]["<unk>"] = 120;
  EXPECT_EQ(parse(changed).encode("axxb", false), (Ids{256}));  // left out, as elsewhere
  changed["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(parse(changed).encode("axxb", false), (Ids{'a', 120, 120, 'b'}));
  changed["model"]["fuse_unk"] = true;
  EXPECT_EQ(parse(changed).encode("axxb", false), (Ids{'a', 120, 'b'}));
}

TEST(TokenizerJson, AddedTokensAreNotTheModels) {
  json changed = file();
  changed["model"]["vocab"].erase("x");
  changed["added_tokens"].push_back({{"id", 300}, {"content", "x"}, {"single_word", true}});
  EXPECT_EQ(parse(changed).encode("x axb", false), (Ids{300, ' ', 256}));
}

TEST(TokenizerJson, IdsMayLeaveGaps) {
  json changed = file();
  changed["added_tokens"].push_back({{"id", 5000}, {"content", "<far>"}, {"special", true}});
  const Tokenizer tokenizer = parse(changed);
  EXPECT_EQ(tokenizer.vocab_size(), 5001);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<far>a", false), true), "<far>a");
  EXPECT_THROW(tokenizer.decode(Ids{4000}), UserError);
}

TEST(TokenizerJson, OtherComponentsAreRefusedByName) {
  const auto set = [](const char* stage, json value) { return [=](json& j) { j[stage] = value; }; };
  expect_refused(set("normalizer", {{"type", "Fancy"}}), "Fancy");
  expect_refused(set("pre_tokenizer", {{"type", "UnicodeScripts"}}), "UnicodeScripts");
  expect_refused(set("pre_tokenizer", split_pre_tokenizer(R"(\w+|()")),
                 "end pattern with unmatched");
  expect_refused(set("post_processor", {{"type", "Fancy"}}), "Fancy");
  expect_refused(set("decoder", {{"type", "CTC"}}), "CTC");
  expect_refused(set("version", "2.0"), "2.0");
  expect_refused([](json& j) { j["model"]["type"] = "Fancy"; }, "Fancy");
  expect_refused([](json& j) { j["model"]["dropout"] = 0.1; }, "dropout");
  expect_refused([](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
}

// A pattern without a scanner, and known ones whose matches are asked for in other words.
TEST(TokenizerJson, OtherPatternsCutToo) {
  json changed = file();
  changed["pre_tokenizer"] = split_pre_tokenizer(R"(ab|c)");
  EXPECT_EQ(parse(changed).encode("abcab", false), (Ids{256, 'c', 256}));
  json inverted = file();
  inverted["pre_tokenizer"] =
      split_pre_tokenizer(tokenize::pattern_regex(tokenize::SplitPattern::llama3));
  auto& split = inverted["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Removed";
  EXPECT_EQ(parse(inverted).encode("abc abc", false), Ids{});
  split["invert"] = true;
  EXPECT_EQ(parse(inverted).encode("abc abc", false), (Ids{257, 258}));
  EXPECT_NE(parse(inverted).data().pre_tokenizer.scanner(), nullptr);
}

TEST(TokenizerJson, BadReferencesAndIdsAreRefused) {
  const auto vocab = [](const char* token, json id) {
    return [=](json& j) { j["model"]["vocab"][token] = id; };
  };
  expect_refused(vocab("zz", -1), "whole number >= 0");
  expect_refused(vocab("zz", 1.5), "whole number >= 0");
  expect_refused(vocab("zz", "7"), "whole number >= 0");
  expect_refused(vocab("zz", uint64_t{1} << 63), "whole number >= 0");
  expect_refused(vocab("zz", 2000000000), "far beyond");
  expect_refused(vocab("zz", 97), "have the same id 97");
  expect_refused([](json& j) { j["model"]["merges"].push_back({"zz", "a"}); }, "\"zz\"");
  expect_refused([](json& j) { j["model"]["merges"].push_back({"c", "c"}); }, "\"cc\"");
  expect_refused([](json& j) { j["model"]["merges"].push_back("a b c"); }, "merges[3]");
  expect_refused([](json& j) { j["model"]["merges"].push_back(7); }, "merges[3]");
  expect_refused([](json& j) { j["model"]["merges"].push_back({"a"}); }, "merges[3]");
  expect_refused([](json& j) { j["model"]["unk_token"] = "zz"; }, "zz");
  expect_refused([](json& j) { j["added_tokens"][0]["id"] = 5; }, "same id 5");
  expect_refused([](json& j) { j["added_tokens"][0]["content"] = "ab"; }, "two ids");
  expect_refused([](json& j) { j["added_tokens"][0].erase("id"); }, "\"id\"");
  expect_refused([](json& j) { j["added_tokens"][0]["content"] = std::string(5000, '<'); }, "5000");
  expect_refused(
      [](json& j) {
        j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"x", 9999}}, {"cls", {"y", 1}}};
      },
      "no token has");
}

TEST(TokenizerJson, WrongShapesAreRefused) {
  for (const char* key : {"model", "pre_tokenizer", "decoder"})
    for (const json& wrong : {json(3), json("x"), json::array({1})})
      expect_refused([&](json& j) { j[key] = wrong; }, key);
  expect_refused([](json& j) { j.erase("model"); }, "\"model\" is missing");
  expect_refused([](json& j) { j["model"].erase("vocab"); }, "\"vocab\" is missing");
  expect_refused([](json& j) { j["model"]["vocab"] = json::array(); }, "vocab");
  expect_refused([](json& j) { j["model"]["merges"] = 1; }, "merges");
  expect_refused([](json& j) { j["added_tokens"] = {1, 2}; }, "added_tokens");
  expect_refused([](json& j) { j["pre_tokenizer"]["use_regex"] = "yes"; }, "use_regex");
}

TEST(TokenizerJson, HostileBytesAreRefused) {
  const std::string good = file().dump();
  EXPECT_NO_THROW(Tokenizer::parse(good, "t.json"));
  for (const std::string text : {"", " ", "null", "[]", "{", "{}", "\xFF\xFE", "{\"a\":\"\x01\"}"})
    expect_refused(text, "");
  expect_refused(std::string(100000, '['), "");
  std::string deep = good;
  deep.insert(1, "\"x\":" + std::string(500, '[') + std::string(500, ']') + ",");
  expect_refused(deep, "");
  std::string twice = good;
  twice.insert(1, "\"version\":\"1.0\",");
  expect_refused(twice, "\"version\" stands twice");
  std::string twice_in_vocab = good;
  twice_in_vocab.replace(good.find("\"!\":33"), 6, "\"!\":33,\"!\":300");
  expect_refused(twice_in_vocab, "two ids");
  for (size_t size = 0; size < good.size(); size += 97)
    EXPECT_THROW(Tokenizer::parse(good.substr(0, size), "t.json"), UserError) << size;
}

TEST(TokenizerJson, AnyChangedByteIsReadOrRefusedCleanly) {
  const std::string good = file().dump();
  std::mt19937 draw(2);
  int read = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    std::string changed = good;
    changed[draw() % changed.size()] = static_cast<char>(draw() % 256);
    try {
      Tokenizer::parse(changed, "t.json").encode("abc <|endoftext|> \xE4\xB8\xAD", true);
      ++read;
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 1500);
}

TEST(TokenizerJson, SavedFileLoads) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tokenizer_json_test_" + std::to_string(getpid()));
  const Tokenizer tokenizer = parse(file());
  tokenizer.save(path);
  EXPECT_EQ(Tokenizer::load(path).to_json(), tokenizer.to_json());
  std::filesystem::remove(path);
  EXPECT_THAT([&] { Tokenizer::load(path); },
              testing::ThrowsMessage<UserError>(HasSubstr(path.string())));
}

}  // namespace
}  // namespace megalith::text
