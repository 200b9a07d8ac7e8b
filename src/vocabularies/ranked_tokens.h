// SPDX-License-Identifier: Apache-2.0
// A vocabulary of bytes and their ranks, as tiktoken has it: a word that is a token is that token;
// of others, the two neighbours that make the token of lowest rank become one, the leftmost first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::vocabularies {

struct RankedTokens {
  struct Token {
    std::string bytes;
    int32_t rank;
  };
  struct Special {
    std::string text;
    int32_t id;
  };
  std::vector<Token> tokens;  // in any order; ranks and bytes differ
  int32_t first_id = 0;       // of rank 0
  std::vector<Special> specials;
  bool specials_in_text = true;  // they are looked for in a text
  std::string pattern;           // the regular expression that cuts a text into words
};

/// UserError, naming `where`, if a byte has no token or two tokens have one id or spelling.
text::Tokenizer make_tokenizer(const RankedTokens& ranked, std::string_view where);

}  // namespace megalith::vocabularies
