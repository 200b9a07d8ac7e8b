// SPDX-License-Identifier: Apache-2.0
// A unigram model as the SentencePiece library (0.2.3) computes it: over the whole text, not word
// by word, with sums in float that begin anew where they have become large. Their rounding decides
// between ways that are nearly alike, so ids that equal the library's need its arithmetic. Unlike
// in unigram_model.h, pieces that users defined have a score that wins, and unknown characters stay
// unknown.
//
// Where no piece crosses the beginning of a word, every way leads through it, and all that a word
// is told of what came before is the sum. A plan of the word, made once in double, holds for every
// sum whose rounding errors are smaller than the plan's lead over other ways, and then only the sum
// itself is to be computed; else the word is searched again.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenize/piece_trie.h"
#include "tokenize/word_cache.h"

namespace megalith::tokenize {

class SentencePieceUnigram {
 public:
  struct Piece {
    std::string_view text;  // not empty
    int32_t id;
    float score;
    bool user_defined;
  };
  struct Options {
    int32_t unknown_id = 0;
    bool byte_fallback = false;
    std::array<int32_t, 256> byte_ids{};  // with byte_fallback: of all bytes
  };
  /// Working memory of one thread, reused from text to text.
  struct Node {
    float score = 0;  // of the best way here
    uint32_t begin = 0;
    int32_t id = -1;  // of the last piece; -1: no way leads here
  };
  struct PlanNode {
    double score = 0;
    double second = 0;  // of the next best way here
    uint32_t begin = 0;
    int32_t id = -1;
  };
  struct Scratch {
    std::vector<Node> nodes;
    std::vector<PlanNode> plan;
  };

  SentencePieceUnigram() = default;
  /// `pieces` are those that a text may be cut into.
  SentencePieceUnigram(const Options& options, const std::vector<Piece>& pieces);

  /// Appends the ids of a text. `plans` is of this model alone. UserError if the text is longer
  /// than 2^32 - 2 bytes. Time: the text's length times the longest piece's.
  void encode(std::string_view text, Scratch& scratch, WordCache& plans,
              std::vector<int32_t>& ids) const;
  const Options& options() const { return options_; }

 private:
  // In an entry of the cache: the lead, a bound of the sums of ways into the word, then the ids.
  static constexpr size_t kPlanNumbers = 2;
  void search(std::string_view text, float& sum, Scratch& scratch, std::vector<int32_t>& ids) const;
  size_t plan(std::string_view word, Scratch& scratch,
              std::array<int32_t, WordCache::kMaxIds>& entry) const;
  static bool holds(const WordCache::Entry& entry, size_t bytes, float sum);
  void append_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  Options options_;
  PieceTrie pieces_;
  std::vector<float> scores_;  // by id
  float unknown_score_ = 0;
  size_t longest_ = 4;          // bytes of a piece, or of an unknown character
  bool cuts_at_marks_ = false;  // no piece crosses the place where a mark follows something else
};

}  // namespace megalith::tokenize
