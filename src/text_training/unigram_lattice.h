// SPDX-License-Identifier: Apache-2.0
// All ways to cut a text into the pieces of a vocabulary in training: how often each piece is to be
// expected, and the best way, also without one of the pieces.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tokenize/piece_trie.h"

namespace megalith::text {

struct ScoredPiece {
  std::string text;
  double score;  // log probability
};

class UnigramLattice {
 public:
  static constexpr int32_t kUnknown = -1;

  /// The pieces must outlive the lattice.
  explicit UnigramLattice(const std::vector<ScoredPiece>& pieces);

  /// Adds `weight` times the expected number of each piece in `text`; the text's log likelihood.
  double add_expected(std::string_view text, double weight, std::vector<double>& expected);
  /// The pieces (or kUnknown) of the best way that does not take `without`. Its score: score().
  const std::vector<int32_t>& best(std::string_view text, int32_t without = -2);
  double score() const { return score_; }

 private:
  struct Edge {
    uint32_t begin;
    uint32_t end;
    int32_t piece;
    double score;
  };
  void find_edges(std::string_view text, int32_t without);

  const std::vector<ScoredPiece>& pieces_;
  tokenize::PieceTrie trie_;
  double unknown_score_ = 0;
  std::vector<Edge> edges_;  // by their beginnings
  std::vector<double> forward_, backward_;
  std::vector<size_t> last_edge_;
  std::vector<int32_t> best_;
  double score_ = 0;
};

}  // namespace megalith::text
