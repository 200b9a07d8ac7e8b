// SPDX-License-Identifier: Apache-2.0
// The five published vocabularies with llama.cpp's own cases, and small ones for what they lack.
#include "vocabularies/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "gguf/reader.h"

namespace megalith::vocabularies {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using gguf::Value;
using ::testing::HasSubstr;

class Published : public ::testing::TestWithParam<const char*> {};

TEST_P(Published, IdsOfEveryCase) {
  const fs::path folder = fs::path(MEGA_SOURCE_DIR) / "../shared/data/tokenizers";
  const fs::path path = folder / fmt::format("ggml-vocab-{}.gguf", GetParam());
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  const text::Tokenizer tokenizer =
      read_gguf_vocabulary(gguf::Reader(path).metadata(), path.string());
  const text::Tokenizer again = text::Tokenizer::parse(tokenizer.to_json(), "again");
  std::string cases = read_file(path.string() + ".inp");
  std::istringstream lines(read_file(path.string() + ".out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  int compared = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    const size_t end = std::min(cases.find(separator), cases.size());
    const std::string text = cases.substr(0, end);
    cases.erase(0, end + separator.size());
    Ids expected;
    std::istringstream ids(line);
    for (int32_t id = 0; ids >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode(text, false), expected) << text;
    EXPECT_EQ(again.encode(text, false), expected) << text;
  }
  EXPECT_EQ(compared, 46);
}
INSTANTIATE_TEST_SUITE_P(GgufVocabulary, Published,
                         ::testing::Values("gpt-2", "llama-bpe", "llama-spm", "phi-3", "bert-bge"),
                         [](const auto& tried) {
                           std::string name = tried.param;
                           std::erase(name, '-');
                           return name;
                         });

gguf::Metadata metadata(std::string_view model, const std::vector<std::string>& tokens) {
  return {{"tokenizer.ggml.model", Value::text(model)},
          {"tokenizer.ggml.tokens", Value::texts(tokens)}};
}

gguf::Metadata bpe(std::string_view pre) {
  gguf::Metadata keys = metadata("gpt2", {"a", "b", "ab", "<s>", "</s>", "1", "2", "12"});
  keys.emplace("tokenizer.ggml.pre", Value::text(pre));
  keys.emplace("tokenizer.ggml.merges", Value::texts(std::vector<std::string>{"a b", "1 2"}));
  keys.emplace("tokenizer.ggml.token_type",
               Value::i32s(std::vector<int32_t>{1, 1, 1, 3, 3, 1, 1, 1}));
  keys.emplace("tokenizer.ggml.bos_token_id", Value::u32(3));
  keys.emplace("tokenizer.ggml.eos_token_id", Value::u32(4));
  return keys;
}

Ids ids(const gguf::Metadata& keys, std::string_view text) {
  return read_gguf_vocabulary(keys, "test").encode(text, true);
}

TEST(GgufVocabulary, TheNameOfTheWordsSaysWhatElseHolds) {
  EXPECT_EQ(ids(bpe("gpt-2"), "ab12"), (Ids{2, 7}));
  EXPECT_EQ(ids(bpe("smollm"), "ab12"), (Ids{2, 5, 6}));
  EXPECT_EQ(ids(bpe("qwen2"), "ab12</s>"), (Ids{2, 5, 6, 4}));
  EXPECT_EQ(ids(bpe("llama-bpe"), "ab12"), (Ids{3, 2, 7}));
  EXPECT_EQ(ids(bpe("roberta-bpe"), "ab12"), (Ids{3, 2, 7, 4}));
  gguf::Metadata keys = bpe("llama-bpe");
  keys.emplace("tokenizer.ggml.add_bos_token", Value::boolean(false));
  keys.emplace("tokenizer.ggml.add_eos_token", Value::boolean(true));
  EXPECT_EQ(ids(keys, "ab12"), (Ids{2, 7, 4}));
}

TEST(GgufVocabulary, PiecesOfT5StandBeforeAnEnd) {
  const std::string mark = "\xE2\x96\x81";
  gguf::Metadata keys = metadata("t5", {"<pad>", "</s>", "<unk>", mark, "a", mark + "a"});
  keys.emplace("tokenizer.ggml.scores", Value::f32s(std::vector<float>{0, 0, 0, -2, -2, -3}));
  keys.emplace("tokenizer.ggml.token_type", Value::i32s(std::vector<int32_t>{3, 3, 2, 1, 1, 1}));
  keys.emplace("tokenizer.ggml.eos_token_id", Value::u32(1));
  keys.emplace("tokenizer.ggml.unknown_token_id", Value::u32(2));
  EXPECT_EQ(ids(keys, "a  ax</s>"), (Ids{5, 5, 2, 1, 1}));
  keys.emplace("tokenizer.ggml.precompiled_charsmap", Value::i32s(std::vector<int32_t>{1}));
  EXPECT_THROW(ids(keys, "a"), UserError);
}

TEST(GgufVocabulary, TextsSayTheRest) {
  gguf::Metadata keys = bpe("gpt-2");
  keys.emplace("tokenizer.chat_template", Value::text("{{ a }}"));
  keys.emplace("tokenizer.chat_template.tool_use", Value::text("{{ b }}"));
  keys.emplace("tokenizer.chat_template.../x", Value::text("{{ c }}"));
  const auto texts = gguf_texts(keys);
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts.at("chat_template.jinja"), "{{ a }}");
  EXPECT_EQ(texts.at("additional_chat_templates/tool_use.jinja"), "{{ b }}");
  EXPECT_THAT(texts.at("tokenizer_config.json"), HasSubstr("\"eos_token\": \"</s>\""));
}

TEST(GgufVocabulary, WhatIsWrongIsSaid) {
  const auto fault = [](const gguf::Metadata& keys) -> std::string {
    try {
      read_gguf_vocabulary(keys, "f");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(fault({}), HasSubstr("holds no tokenizer"));
  EXPECT_THAT(fault(metadata("rwkv", {"a"})), HasSubstr("\"rwkv\" is not supported"));
  EXPECT_THAT(fault(bpe("viking")),
              HasSubstr("tokenizer.ggml.pre \"viking\" is not supported; gpt-2"));
  const auto changed = [&](const char* key, Value value) {
    gguf::Metadata keys = bpe("gpt-2");
    keys.insert_or_assign(std::string("tokenizer.ggml.") + key, std::move(value));
    return fault(keys);
  };
  EXPECT_THAT(changed("tokens", Value::u32(1)),
              HasSubstr("tokens must be an array of texts, not one u32"));
  EXPECT_THAT(changed("tokens", Value::texts(std::vector<std::string>{"a", "\xFF"})),
              HasSubstr("no text"));
  EXPECT_THAT(changed("token_type", Value::i32s(std::vector<int32_t>{1})), HasSubstr("8 integers"));
  EXPECT_THAT(changed("token_type", Value::i32s(std::vector<int32_t>(8, 9))),
              HasSubstr("unknown type 9"));
  EXPECT_THAT(changed("merges", Value::texts(std::vector<std::string>{"a c"})),
              HasSubstr("merges[0]"));
  EXPECT_THAT(changed("merges", Value::texts(std::vector<std::string>{"ab"})),
              HasSubstr("merges[0]"));
  EXPECT_THAT(changed("bos_token_id", Value::u32(8)), HasSubstr("one of 8 tokens"));
  EXPECT_THAT(changed("add_bos_token", Value::u32(1)), HasSubstr("a truth value"));
  gguf::Metadata pieces = metadata("llama", {"<unk>", "a"});
  EXPECT_THAT(fault(pieces), HasSubstr("scores must be an array of numbers, and is missing"));
  pieces.emplace("tokenizer.ggml.scores", Value::f32s(std::vector<float>{1}));
  EXPECT_THAT(fault(pieces), HasSubstr("1 numbers for 2 tokens"));
  EXPECT_THAT(fault(metadata("bert", {"a"})), HasSubstr("unknown_token_id is missing"));
}

}  // namespace
}  // namespace megalith::vocabularies
