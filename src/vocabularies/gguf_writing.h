// SPDX-License-Identifier: Apache-2.0
// A tokenizer as the keys tokenizer.* of a GGUF file, as llama.cpp's converter has them: byte-level
// BPE as `gpt2`, BPE of pieces with byte fallback as `llama`, Unigram as `t5`, WordPiece as `bert`.
// What is written is read back and compared, so a tokenizer that the keys make another one is
// refused, not written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "text/tokenizer.h"

namespace megalith::vocabularies {

/// The ids that begin and end a text.
struct TextEnds {
  std::optional<int32_t> begin;
  std::vector<int32_t> end;
};

struct GgufVocabulary {
  gguf::OrderedMetadata keys;  // without those of `ends`
  /// Of the model, but what the tokenizer puts around a text comes before what the model says, and
  /// of several ends the tokenizer's is the first.
  TextEnds ends;
  /// What of the tokenizer has no words there and changes few ids; each is a part of a sentence.
  std::vector<std::string> losses;
};

/// For a model of `vocab` ids, of which those without a token are filled up. `texts`: the files of
/// a Hugging Face folder by name; tokenizer_config.json and special_tokens_map.json say which
/// tokens have roles. UserError naming what cannot be said.
GgufVocabulary write_gguf_vocabulary(const text::Tokenizer& tokenizer,
                                     const std::map<std::string, std::string>& texts, int64_t vocab,
                                     const TextEnds& model);

/// Chat templates, the main one and those with names; UserError if tokenizer_config.json is broken.
gguf::OrderedMetadata gguf_template_keys(const std::map<std::string, std::string>& texts);

}  // namespace megalith::vocabularies
