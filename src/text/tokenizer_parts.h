// SPDX-License-Identifier: Apache-2.0
// A tokenizer as readers of other files give it: stages spelled as in a tokenizer.json, and the
// tokens apart from them. What comes of it is what a tokenizer.json would give, and to_json()
// writes one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace megalith::text {

struct TokenizerParts {
  /// A token of the model, special ones included; ids differ, and so do spellings.
  struct Token {
    int32_t id;
    std::string spelling;
    double score = 0;  // of a unigram model, whose ids have no gaps
  };
  /// What a tokenizer.json has but for the tokens: model.type and options, normalizer,
  /// pre_tokenizer, post_processor, decoder.
  std::string stages;
  std::vector<Token> tokens;
  std::vector<std::pair<int32_t, int32_t>> merges;  // of BPE, by rank
  std::vector<uint32_t> merge_ranks;     // empty, or one for each merge: tokenizer_data.h
  std::vector<int32_t> unused_ids;       // of a unigram model: never made of a text
  std::vector<AddedToken> added_tokens;  // their ids are those of tokens
};

/// UserError, naming `where`, if the parts do not fit together.
Tokenizer assemble_tokenizer(TokenizerParts parts, std::string_view where);

}  // namespace megalith::text
