// SPDX-License-Identifier: Apache-2.0
// The parts of gguf_writing.h: what each kind of tokenizer has to say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_data.h"
#include "vocabularies/gguf_writing.h"
#include "vocabularies/piece_model.h"

namespace megalith::vocabularies {

/// UserError: the GGUF format cannot express this tokenizer, because of that.
[[noreturn]] void refuse_writing(const std::string& cause);

/// Tokens by id, spelled as the tokenizer does.
struct WrittenTokens {
  std::vector<std::string> texts;
  std::vector<PieceKind> kinds;
};

/// Keys named without tokenizer.ggml., roles and tokens aside.
struct WrittenModel {
  std::vector<std::pair<std::string, gguf::Value>> keys;
  std::vector<std::string> losses;
};

/// May change how `tokens` are spelled.
WrittenModel write_byte_level(const text::TokenizerData& data);
WrittenModel write_wordpiece(const text::TokenizerData& data, WrittenTokens& tokens);
WrittenModel write_pieces(const text::TokenizerData& data, WrittenTokens& tokens);

/// Refuses what the file gives back as another tokenizer; adds what is lost on the way.
void require_same(const text::TokenizerData& ours, const text::TokenizerData& theirs,
                  std::vector<std::string>& losses);

/// RoBERTa's, one SEP behind the first text and two between them.
bool joins_as_roberta(const text::PostProcessor& post);

}  // namespace megalith::vocabularies
