// SPDX-License-Identifier: Apache-2.0
// SentencePiece's own file (tokenizer.model, spiece.model): a protobuf message of pieces, the kind
// of the model, and the rules of normalisation.
#pragma once

#include <cstdint>
#include <string_view>

#include "vocabularies/piece_model.h"

namespace megalith::vocabularies {

inline constexpr int64_t kMaxSentencePieceBytes = int64_t{32} << 20;

/// UserError, naming `where`, if the file is no such message or asks for what is not supported: the
/// model of whole words, and rules for the text that comes out.
PieceModel read_sentencepiece(std::string_view content, std::string_view where);
/// True if it may be such a file: it begins with a piece.
bool looks_like_sentencepiece(std::string_view content);

}  // namespace megalith::vocabularies
