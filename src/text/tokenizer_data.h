// SPDX-License-Identifier: Apache-2.0
// What a tokenizer consists of: one member per stage of the pipeline. Stages that are kept only to
// be written back, and those whose options do not affect ids, stay as the JSON text of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/byte_fallback.h"
#include "text/normalizer.h"
#include "text/split.h"
#include "text/vocabulary.h"

namespace megalith::text {

struct TokenizerData {
  std::vector<AddedToken> added_tokens;  // in the file's order
  AddedTokenMatcher raw_matcher;         // those that are not `normalized`
  AddedTokenMatcher normalized_matcher;
  Normalizer normalizer;

  SplitPattern pattern = SplitPattern::gpt2;
  bool add_prefix_space = false;

  bool byte_fallback = false;      // symbols are characters, words are whole parts of the text
  CharacterSymbols characters;     // with byte_fallback
  bool strip_first_space = false;  // of decoded text, with byte_fallback

  Vocabulary vocabulary;  // the model's tokens and the added ones
  BpeModel model;
  bool ignore_merges = false;                       // a word that is a token is that token
  std::optional<std::string> unk_token;             // for what no token stands for
  bool fuse_unk = false;                            // neighbouring ones become one
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank
  std::vector<int32_t> model_ids;                   // the tokens of `model.vocab`, ascending

  std::vector<int32_t> prefix_ids;  // what the post-processor puts around a single text
  std::vector<int32_t> suffix_ids;
  std::vector<bool> is_special;  // by id

  // As in the file, minified; "null" where there is nothing.
  std::string truncation_json = "null";
  std::string padding_json = "null";
  std::string normalizer_json = "null";
  std::string pre_tokenizer_json = "null";
  std::string post_processor_json = "null";
  std::string decoder_json = "null";
};

/// Fills the merge table, the ids of bytes or characters and the byte index from `vocabulary` and
/// `merges`. Call it before the added tokens join the vocabulary, since a model knows only its own
/// tokens. `where` names the file in messages. UserError if a merge makes a token that the
/// vocabulary lacks.
void complete_model(TokenizerData& data, std::string_view where);
/// Fills the matchers and special flags from `added_tokens`.
void complete_added_tokens(TokenizerData& data);

}  // namespace megalith::text
