// SPDX-License-Identifier: Apache-2.0
// The bytes that each token of a tokenizer adds to a text, as its decoder writes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grammars/token_trie.h"
#include "text/tokenizer.h"

namespace megalith::grammars {

struct TokenTexts {
  /// By id; empty for special tokens and ids without a token.
  std::vector<std::string> texts;
  /// By id: whether the token adds something else where a text begins (SentencePiece's first
  /// space goes), so that a grammar must not take it there for `texts`.
  std::vector<bool> differs_first;
};

/// UserError for tokenizers whose decoder changes a text once it is whole: there a token has no
/// bytes of its own.
TokenTexts token_texts(const text::Tokenizer& tokenizer);
/// The trie of these; some tens of milliseconds for a hundred thousand tokens.
std::shared_ptr<const TokenTrie> token_trie(const text::Tokenizer& tokenizer);

}  // namespace megalith::grammars
