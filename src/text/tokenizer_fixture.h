// SPDX-License-Identifier: Apache-2.0
// Tests only: a small tokenizer.json as a value, to be changed by each test before it is parsed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "tokenize/byte_level.h"

namespace megalith::text {

/// The 256 bytes as ids 0..255 (byte value = id), one token per merge from 256 on, and
/// `<|endoftext|>` last. Merges are given as bytes.
inline nlohmann::json small_tokenizer(
    const std::vector<std::pair<std::string_view, std::string_view>>& merges) {
  using nlohmann::json;
  json vocab = json::object();
  json merge_list = json::array();
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    vocab[tokenize::bytes_to_token(std::string_view(&as_char, 1))] = byte;
  }
  for (const auto& [left, right] : merges) {
    const std::string a = tokenize::bytes_to_token(left), b = tokenize::bytes_to_token(right);
    merge_list.push_back({a, b});
    if (!vocab.contains(a + b)) vocab[a + b] = vocab.size();
  }
  const size_t end_id = vocab.size();
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const json end_token = {{"id", end_id},    {"content", "<|endoftext|>"}, {"lstrip", false},
                          {"rstrip", false}, {"normalized", false},        {"single_word", false},
                          {"special", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {end_token}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", merge_list}}}};
}

/// BERT's: lower case, words and punctuation, pieces behind "##", [CLS] and [SEP] around. The
/// tokens are [PAD], [UNK], [CLS], [SEP] as 0 to 3, and `pieces` from 4 on.
inline nlohmann::json small_wordpiece(const std::vector<std::string>& pieces) {
  using nlohmann::json;
  const std::vector<std::string> special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  json vocab = json::object(), added = json::array();
  for (const std::string& name : special) {
    added.push_back({{"id", vocab.size()},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocab[name] = vocab.size();
  }
  for (const std::string& piece : pieces) vocab[piece] = vocab.size();
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

inline Tokenizer parse(const nlohmann::json& json) {
  return Tokenizer::parse(json.dump(), "test.json");
}

}  // namespace megalith::text
