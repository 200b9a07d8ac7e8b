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
#include "text/decoder.h"
#include "text/post_processor.h"
#include "text/vocabulary.h"
#include "tokenize/bpe_model.h"
#include "tokenize/byte_fallback.h"
#include "tokenize/normalizer.h"
#include "tokenize/pre_tokenizer.h"
#include "tokenize/sentencepiece_unigram.h"
#include "tokenize/unigram_model.h"
#include "tokenize/wordpiece_model.h"

namespace megalith::text {

enum class ModelKind {
  byte_bpe,       // symbols are the bytes of a word
  character_bpe,  // symbols are its characters
  wordpiece,
  unigram,
  sentencepiece_unigram,  // as the SentencePiece library computes it
  word_level,             // a word is a token, or unknown
};

inline bool is_bpe(ModelKind kind) {
  return kind == ModelKind::byte_bpe || kind == ModelKind::character_bpe;
}

inline bool is_unigram(ModelKind kind) {
  return kind == ModelKind::unigram || kind == ModelKind::sentencepiece_unigram;
}

struct TokenizerData {
  std::vector<AddedToken> added_tokens;  // in the file's order
  AddedTokenMatcher raw_matcher;         // those that are not `normalized`
  AddedTokenMatcher normalized_matcher;
  tokenize::Normalizer normalizer;
  tokenize::PreTokenizer pre_tokenizer;

  ModelKind kind = ModelKind::byte_bpe;
  Vocabulary vocabulary;           // the model's tokens and the added ones
  std::vector<int32_t> model_ids;  // the tokens of `model.vocab`, ascending

  tokenize::BpeModel model;                         // of both kinds of BPE
  tokenize::CharacterSymbols characters;            // of character_bpe
  bool byte_fallback = false;                       // its characters may become bytes
  bool ignore_merges = false;                       // a word that is a token is that token
  std::optional<std::string> unk_token;             // for what no token stands for
  bool fuse_unk = false;                            // neighbouring ones become one
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank
  /// The rank of each merge, where several have one: what they make is then all the same to the
  /// model, and the leftmost comes first. Empty: its place.
  std::vector<uint32_t> merge_ranks;
  /// No merge crosses the place where a mark follows something else, so words may be cut there.
  bool cuts_at_marks = false;
  tokenize::WordPieceModel wordpiece;
  tokenize::UnigramModel unigram;
  tokenize::SentencePieceUnigram sentencepiece_unigram;
  std::vector<double> scores;       // of both kinds of unigram, by id
  std::vector<int32_t> unused_ids;  // of sentencepiece_unigram: pieces that no text is cut into
  tokenize::PieceTrie whole_words;  // of word_level, whose unknown token is `unk_token`

  Decoder decoder;

  PostProcessor post_processor;
  std::vector<bool> is_special;  // by id

  // As in the file, minified; "null" where there is nothing.
  std::string truncation_json = "null";
  std::string padding_json = "null";
  std::string normalizer_json = "null";
  std::string pre_tokenizer_json = "null";
  std::string post_processor_json = "null";
  std::string decoder_json = "null";
};

/// The tokens of the model that are not empty; they live as long as the vocabulary is unchanged.
std::vector<tokenize::PieceTrie::Piece> model_pieces(const TokenizerData& data);
/// Fills the model of `kind` from `vocabulary`, `model_ids`, `merges` and `scores`. Call it before
/// the added tokens join the vocabulary, since a model knows only its own tokens. `where` names the
/// file in messages. UserError if a merge makes a token that the vocabulary lacks.
void complete_model(TokenizerData& data, std::string_view where);
/// Fills the matchers and special flags from `added_tokens`.
void complete_added_tokens(TokenizerData& data);

}  // namespace megalith::text
