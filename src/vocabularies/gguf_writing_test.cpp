// SPDX-License-Identifier: Apache-2.0
// Published vocabularies of every kind through the keys of a GGUF file and back.
#include "vocabularies/gguf_writing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "gguf/reader.h"
#include "text/tokenizer_fixture.h"
#include "tokenize/random_text_fixture.h"
#include "tokenize/split.h"
#include "vocabularies/gguf_vocabulary.h"

namespace megalith::vocabularies {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Texts = std::map<std::string, std::string>;

const fs::path kData = fs::path(MEGA_SOURCE_DIR) / "../shared/data";

/// What a reader of the file gets.
gguf::Metadata keys_of(const GgufVocabulary& written) {
  gguf::Metadata keys(written.keys.begin(), written.keys.end());
  const auto id = [](int32_t value) { return gguf::Value::u32(static_cast<uint32_t>(value)); };
  if (written.ends.begin) keys.emplace("tokenizer.ggml.bos_token_id", id(*written.ends.begin));
  if (!written.ends.end.empty())
    keys.emplace("tokenizer.ggml.eos_token_id", id(written.ends.end.front()));
  return keys;
}

std::string text_at(const gguf::Metadata& keys, const char* name) {
  return keys.at(std::string("tokenizer.ggml.") + name).text().value();
}

/// llama.cpp's cases, and all line ends and spaces.
std::vector<std::string> usual_texts() {
  std::vector<std::string> texts{
      "", " ", "  ", "\n", " a  b ", "\t\r\n x", tokenize::built_in_text()};
  std::string cases;
  const fs::path path = kData / "tokenizers/ggml-vocab-gpt-2.gguf.inp";
  if (fs::exists(path)) cases = read_file(path);
  const std::string separator = "\n__ggml_vocab_test__\n";
  while (!cases.empty()) {
    const size_t end = std::min(cases.find(separator), cases.size());
    texts.push_back(cases.substr(0, end));
    cases.erase(0, std::min(end + separator.size(), cases.size()));
  }
  return texts;
}

/// And characters of all of Unicode.
std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts = usual_texts();
  std::mt19937 draw(7);
  for (size_t length = 1; length < 400; length = length * 3 / 2 + 1)
    texts.push_back(tokenize::random_text(draw, length));
  return texts;
}

void expect_same_ids(const text::Tokenizer& ours, const text::Tokenizer& theirs,
                     const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    EXPECT_EQ(theirs.encode(text, true), ours.encode(text, true)) << text;
}

void expect_same_texts(const text::Tokenizer& ours, const text::Tokenizer& theirs) {
  for (const std::string& text : hostile_texts()) {
    const std::vector<int32_t> ids = ours.encode(text, true);
    EXPECT_EQ(theirs.decode(ids), ours.decode(ids)) << text;
  }
}

class PublishedAgain : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedAgain, ThroughATokenizerJsonAndBack) {
  const fs::path path = kData / fmt::format("tokenizers/ggml-vocab-{}.gguf", GetParam());
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  const gguf::Reader file(path);
  const text::Tokenizer tokenizer = text::Tokenizer::parse(
      read_gguf_vocabulary(file.metadata(), path.string()).to_json(), "tokenizer.json");
  const int64_t vocab = tokenizer.vocab_size() + 3;
  const GgufVocabulary written =
      write_gguf_vocabulary(tokenizer, gguf_texts(file.metadata()), vocab, {});
  EXPECT_THAT(written.losses, IsEmpty());
  const gguf::Metadata keys = keys_of(written);
  for (const char* key :
       {"model", "bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id",
        "cls_token_id", "seperator_token_id", "mask_token_id", "merges"}) {
    const std::string name = std::string("tokenizer.ggml.") + key;
    const auto before = file.metadata().find(name), after = keys.find(name);
    if (before == file.metadata().end()) continue;
    ASSERT_NE(after, keys.end()) << name;
    EXPECT_EQ(after->second, before->second) << name;
  }
  auto tokens = keys.at("tokenizer.ggml.tokens").texts().value();
  const bool is_wordpiece = text_at(keys, "model") == "bert";
  // Files of older converters leave brackets unmarked.
  const std::string marked = "\xE2\x96\x81[";
  for (std::string& token : tokens)
    if (is_wordpiece && token.starts_with(marked) && token.ends_with(']'))
      token.erase(0, marked.size() - 1);
  ASSERT_EQ(tokens.size(), static_cast<size_t>(vocab));
  EXPECT_EQ(tokens.back(), fmt::format("[PAD{}]", vocab - 1));
  tokens.resize(static_cast<size_t>(vocab) - 3);
  EXPECT_TRUE(tokens == file.metadata().at("tokenizer.ggml.tokens").texts().value());
  const text::Tokenizer again = read_gguf_vocabulary(keys, "written");
  expect_same_ids(tokenizer, again, hostile_texts());
  expect_same_texts(tokenizer, again);
}
INSTANTIATE_TEST_SUITE_P(GgufWriting, PublishedAgain,
                         ::testing::Values("gpt-2", "llama-bpe", "llama-spm", "phi-3", "bert-bge"),
                         [](const auto& tried) {
                           std::string name = tried.param;
                           std::erase(name, '-');
                           return name;
                         });

/// A published tokenizer.json, what its file says, and what of it is lost.
struct Folder {
  const char *path, *model, *pre;
  std::vector<std::string> losses;
};

class PublishedFolder : public ::testing::TestWithParam<Folder> {};

TEST_P(PublishedFolder, GivesTheSameIds) {
  const fs::path path = kData / GetParam().path / "tokenizer.json";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  const GgufVocabulary written = write_gguf_vocabulary(tokenizer, {}, tokenizer.vocab_size(), {});
  EXPECT_EQ(written.losses, GetParam().losses);
  const gguf::Metadata keys = keys_of(written);
  EXPECT_EQ(text_at(keys, "model"), GetParam().model);
  EXPECT_EQ(text_at(keys, "pre"), GetParam().pre);
  const text::Tokenizer again = read_gguf_vocabulary(keys, "written");
  const bool is_unigram = GetParam().model == std::string_view("t5");
  expect_same_ids(tokenizer, again, is_unigram ? usual_texts() : hostile_texts());
  if (!is_unigram) expect_same_texts(tokenizer, again);
}
INSTANTIATE_TEST_SUITE_P(
    GgufWriting, PublishedFolder,
    ::testing::Values(Folder{"models/stories260K", "llama", "default", {}},
                      Folder{"tokenizers/t5-small",
                             "t5",
                             "default",
                             {"rare characters are normalised as by the SentencePiece library"}},
                      Folder{"tokenizers/roberta-base",
                             "gpt2",
                             "roberta-bpe",
                             {"<mask> leaves the white space beside it"}}),
    [](const auto& tried) {
      std::string name = fs::path(tried.param.path).filename().string();
      std::erase(name, '-');
      return name;
    });

/// 256 bytes, "ab" = 256, "<|endoftext|>" = 257.
Json small() { return text::small_tokenizer({{"a", "b"}}); }

GgufVocabulary write(const Json& tokenizer, const Texts& texts = {}, int64_t vocab = 300,
                     const TextEnds& model = {}) {
  return write_gguf_vocabulary(text::parse(tokenizer), texts, vocab, model);
}

std::string name_of_words(const Json& pre_tokenizer, bool ignore_merges = false) {
  Json json = small();
  json["pre_tokenizer"] = pre_tokenizer;
  json["model"]["ignore_merges"] = ignore_merges;
  return text_at(keys_of(write(json)), "pre");
}

Json bytes(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

Json sequence(const Json& first, const Json& second) {
  return {{"type", "Sequence"}, {"pretokenizers", {first, second}}};
}

Json split(tokenize::SplitPattern pattern, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", tokenize::pattern_regex(pattern)}}},
          {"behavior", behavior},
          {"invert", invert}};
}

TEST(GgufWriting, WordsHaveTheNameOfWhatDoesTheSame) {
  using tokenize::SplitPattern;
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(name_of_words({{"type", "ByteLevel"}, {"add_prefix_space", false}}), "gpt-2");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::gpt2), bytes(false))), "gpt-2");
  EXPECT_EQ(name_of_words(sequence(digits, bytes(true))), "smollm");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::llama3), bytes(false)), true), "llama-bpe");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::llama3), bytes(false))), "dbrx");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::qwen2), bytes(false))), "qwen2");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::qwen2, "Removed", true), bytes(false))),
            "qwen2");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::o200k), bytes(false))), "gpt-4o");
  EXPECT_EQ(name_of_words(sequence(split(SplitPattern::tekken), bytes(false)), true), "tekken");
}

TEST(GgufWriting, RolesAndEndsStandWhereTheFilesSay) {
  Json json = small();
  for (const char* token : {"<pad>", "<s>"})
    json["added_tokens"].push_back(
        {{"id", 257 + json["added_tokens"].size()}, {"content", token}, {"special", true}});
  const Texts texts{{"tokenizer_config.json",
                     R"({"pad_token": {"content": "<pad>"}, "bos_token": "<s>",
                         "eos_token": "<|endoftext|>", "unk_token": null, "mask_token": "no"})"},
                    {"special_tokens_map.json", R"({"sep_token": "<s>"})"}};
  const GgufVocabulary plain = write(json, texts, 300, {5, {7, 257, 9}});
  gguf::Metadata keys = keys_of(plain);
  EXPECT_EQ(plain.ends.begin, 259);
  EXPECT_THAT(plain.ends.end, ElementsAre(257, 7, 9));
  EXPECT_EQ(keys.at("tokenizer.ggml.padding_token_id").integer(), 258);
  EXPECT_EQ(keys.at("tokenizer.ggml.seperator_token_id").integer(), 259);
  EXPECT_FALSE(keys.contains("tokenizer.ggml.unknown_token_id"));
  EXPECT_FALSE(keys.contains("tokenizer.ggml.mask_token_id"));
  EXPECT_EQ(keys.at("tokenizer.ggml.add_bos_token").boolean(), false);
  EXPECT_EQ(keys.at("tokenizer.ggml.add_eos_token").boolean(), false);
  const Json pad = {{"SpecialToken", {{"id", "<pad>"}, {"type_id", 0}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {pad, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, pad}},
      {"pair", Json::array()},
      {"special_tokens", {{"<pad>", {{"id", "<pad>"}, {"ids", {258}}, {"tokens", {"<pad>"}}}}}}};
  const GgufVocabulary around = write(json, texts, 300, {5, {7, 257}});
  EXPECT_EQ(around.ends.begin, 258);
  EXPECT_THAT(around.ends.end, ElementsAre(258, 7, 257));
  keys = keys_of(around);
  EXPECT_EQ(keys.at("tokenizer.ggml.add_bos_token").boolean(), true);
  EXPECT_EQ(keys.at("tokenizer.ggml.add_eos_token").boolean(), true);
  EXPECT_THAT(read_gguf_vocabulary(keys, "f").encode("ab", true), ElementsAre(258, 256, 258));
}

TEST(GgufWriting, TemplatesHaveTheirNames) {
  const auto names = [](const Texts& texts) {
    std::map<std::string, std::string> found;
    for (const auto& [key, value] : gguf_template_keys(texts))
      found[key] = value.text().value_or(fmt::format("{}", value.count()));
    return found;
  };
  EXPECT_THAT(names({}), IsEmpty());
  EXPECT_EQ(names({{"tokenizer_config.json", R"({"chat_template": "{{ a }}"})"}}),
            (Texts{{"tokenizer.chat_template", "{{ a }}"}}));
  const Texts both{{"tokenizer.chat_template", "{{ a }}"},
                   {"tokenizer.chat_template.tool_use", "{{ b }}"},
                   {"tokenizer.chat_templates", "1"}};
  EXPECT_EQ(names({{"tokenizer_config.json", R"({"chat_template": [
                      {"name": "default", "template": "{{ a }}"},
                      {"name": "tool-use", "template": "{{ b }}"}]})"}}),
            both);
  EXPECT_EQ(names({{"chat_template.jinja", "{{ a }}"},
                   {"additional_chat_templates/tool_use.jinja", "{{ b }}"},
                   {"tokenizer_config.json", R"({"chat_template": "{{ c }}"})"}}),
            both);
  EXPECT_THROW(names({{"tokenizer_config.json", "[]"}}), UserError);
}

std::string fault(const Json& tokenizer, int64_t vocab = 300) {
  try {
    write(tokenizer, {}, vocab);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(GgufWriting, WhatTheKeysCannotSayIsRefusedByName) {
  Json json = small();
  EXPECT_THAT(fault(json, 257), HasSubstr("it has 258 ids, and the model 257"));
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_THAT(fault(json), HasSubstr("the way it cuts words has no name there"));
  json = small();
  json["pre_tokenizer"] = sequence(split(tokenize::SplitPattern::cl100k), bytes(false));
  EXPECT_THAT(fault(json), HasSubstr("the way it cuts words has no name there"));
  json = small();
  json["normalizer"] = {{"type", "NFKC"}};
  EXPECT_THAT(fault(json), HasSubstr("no normalizer NFKC"));
  json = small();
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single",
                             {{{"SpecialToken", {{"id", "e"}}}},
                              {{"SpecialToken", {{"id", "e"}}}},
                              {{"Sequence", {{"id", "A"}}}}}},
                            {"special_tokens", {{"e", {{"ids", {257}}}}}}};
  EXPECT_THAT(fault(json), HasSubstr("several tokens stand before"));
  json = small();
  json["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "a"}};
  json["pre_tokenizer"] = nullptr;
  EXPECT_THAT(fault(json), HasSubstr("words as a whole"));
  json = small();
  json["added_tokens"][0]["content"] = "a b";
  json["model"]["vocab"].erase("<|endoftext|>");
  EXPECT_EQ(fault(json), "no fault");
  json["model"]["vocab"]["a b"] = 258;
  json["added_tokens"][0]["content"] = "<|endoftext|>";
  json["model"]["merges"].push_back({"a", " b"});
  json["model"]["vocab"][" b"] = 259;
  EXPECT_EQ(fault(json), "no fault");  // the second space belongs to the token
  json["model"]["vocab"]["a "] = 260;
  json["model"]["vocab"]["b"] = 98;
  json["model"]["merges"].back() = {"a ", "b"};
  EXPECT_THAT(fault(json), HasSubstr("merges"));
}

TEST(GgufWriting, WhatIsLostIsSaid) {
  Json json = small();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"][0]["rstrip"] = true;
  json["added_tokens"][0]["single_word"] = true;
  EXPECT_THAT(write(json).losses,
              ElementsAre("text that is not in the normal form C stays as it is",
                          "<|endoftext|> leaves the white space beside it",
                          "<|endoftext|> is found within words"));
}

/// Pieces as Hugging Face converts them: <unk>, the bytes, a mark, a, b, and three that are merged.
Json pieces() {
  const std::string mark = "\xE2\x96\x81";
  Json vocab = {{"<unk>", 0}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = byte + 1;
  for (const std::string& token :
       {mark, std::string("a"), std::string("b"), std::string("ab"), mark + "a", mark + "ab"})
    vocab[token] = vocab.size();
  return {
      {"added_tokens",
       {{{"id", 0}, {"content", "<unk>"}, {"special", true}, {"normalized", false}}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", mark}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}}}}}},
      {"pre_tokenizer", nullptr},
      {"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges",
         Json::parse(R"([["a", "b"], ["\u2581", "a"], ["\u2581a", "b"], ["\u2581", "ab"]])")}}}};
}

TEST(GgufWriting, MergesOfPiecesAreScoresOfWhatTheyMake) {
  const gguf::Metadata keys = keys_of(write(pieces()));
  const auto scores = keys.at("tokenizer.ggml.scores").numbers().value();
  EXPECT_THAT(std::vector<double>(scores.begin() + 257, scores.begin() + 264),
              ElementsAre(-4, -4, -4, -1, -2, -3, -10000));
  EXPECT_EQ(text_at(keys, "model"), "llama");
  EXPECT_EQ(keys.at("tokenizer.ggml.add_space_prefix").boolean(), true);
  Json json = pieces();
  json["model"]["merges"].erase(3);
  EXPECT_THAT(fault(json), HasSubstr("\"\xE2\x96\x81\" and \"ab\" would"));
  json = pieces();
  std::swap(json["model"]["merges"][0], json["model"]["merges"][3]);
  EXPECT_THAT(fault(json), HasSubstr("have several places"));
  json = pieces();
  json["model"]["byte_fallback"] = false;
  EXPECT_THAT(fault(json), HasSubstr("needs byte fallback"));
  json = pieces();
  json["model"]["vocab"]["<0x100>"] = json["model"]["vocab"]["<0x00>"];
  json["model"]["vocab"].erase("<0x00>");
  EXPECT_THAT(fault(json), HasSubstr("all 256 bytes"));
}

TEST(GgufWriting, TheMarkOfTheFirstPieceIsSaidOrLost) {
  Json json = pieces();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\xE2\x96\x81"},
                           {"prepend_scheme", "never"},
                           {"split", false}};
  GgufVocabulary written = write(json);
  EXPECT_THAT(written.losses, IsEmpty());
  EXPECT_EQ(keys_of(written).at("tokenizer.ggml.add_space_prefix").boolean(), false);
  json["pre_tokenizer"]["prepend_scheme"] = "first";
  written = write(json);
  EXPECT_THAT(written.losses, ElementsAre("what follows a special token begins with a space",
                                          "a text that begins with a space begins with one more"));
  json["pre_tokenizer"] = nullptr;
  EXPECT_THAT(fault(json), HasSubstr("spaces do not become marks"));
  json = pieces();
  json["normalizer"]["normalizers"].push_back({{"type", "NFKC"}});
  EXPECT_THAT(fault(json), HasSubstr("no normalizer NFKC there"));
  json = pieces();
  json["normalizer"]["normalizers"].push_back({{"type", "Strip"}});
  EXPECT_THAT(fault(json), HasSubstr("takes away some spaces"));
  json["normalizer"]["normalizers"].push_back(
      {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  EXPECT_THAT(fault(json), HasSubstr("does not change a text first"));
}

}  // namespace
}  // namespace megalith::vocabularies
