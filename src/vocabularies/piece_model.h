// SPDX-License-Identifier: Apache-2.0
// A vocabulary of pieces with scores, as SentencePiece has it, and as GGUF files carry it on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::vocabularies {

/// The numbers are those of both formats.
enum class PieceKind : int64_t {
  normal = 1,
  unknown = 2,
  control = 3,       // stands for no text
  user_defined = 4,  // always a piece where a text has it
  unused = 5,        // never a piece of a text
  byte = 6,          // <0x0A>: what a character without a piece becomes
};

struct PieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceKind kind = PieceKind::normal;
  };
  enum class Algorithm {
    unigram,
    bpe,         // merges by score
    characters,  // each is a token
  };
  /// What of the pieces is looked for in a text before it is normalised.
  enum class RawTokens {
    none,     // the library's way: those that users defined are found later
    special,  // GGUF's way: all that are not normal
  };
  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::bpe;
  RawTokens raw_tokens = RawTokens::none;
  int32_t unknown_id = 0;
  std::string unknown_surface = " \xE2\x81\x87 ";  // the text of the unknown piece
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
  std::string charsmap;         // compiled rules; empty: none
  std::vector<int32_t> before;  // ids that stand before a text when special tokens are asked for
  std::vector<int32_t> after;
};

/// UserError, naming `where`, if the model makes no sense or asks for what is not supported.
text::Tokenizer make_tokenizer(const PieceModel& model, std::string_view where);

}  // namespace megalith::vocabularies
