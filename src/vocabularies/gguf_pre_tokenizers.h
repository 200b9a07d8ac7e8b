// SPDX-License-Identifier: Apache-2.0
// How byte-level BPE of a GGUF file cuts a text into words: tokenizer.ggml.pre names it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace megalith::vocabularies {

struct GgufPreTokenizer {
  nlohmann::ordered_json pre_tokenizer;  // as a tokenizer.json spells it
  bool ignore_merges = false;            // a word that is a token is that token
  bool add_bos = false;                  // where the file does not say
  bool as_roberta = false;               // texts stand between BOS and EOS, as RoBERTa joins them
};

/// Nothing for a name that is not known.
std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);
/// The name of what does the same, whatever its spelling; nothing if none does.
std::optional<std::string_view> gguf_pre_tokenizer_name(const GgufPreTokenizer& wanted);
/// The names that are known.
std::string gguf_pre_tokenizer_names();

}  // namespace megalith::vocabularies
