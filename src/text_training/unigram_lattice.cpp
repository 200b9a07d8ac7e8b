// SPDX-License-Identifier: Apache-2.0
#include "text_training/unigram_lattice.h"

#include <algorithm>
#include <cmath>

#include "characters/utf8.h"

namespace megalith::text {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

std::vector<tokenize::PieceTrie::Piece> listed(const std::vector<ScoredPiece>& pieces) {
  std::vector<tokenize::PieceTrie::Piece> list;
  for (const ScoredPiece& piece : pieces)
    list.push_back({piece.text, static_cast<int32_t>(list.size())});
  return list;
}

}  // namespace

UnigramLattice::UnigramLattice(const std::vector<ScoredPiece>& pieces)
    : pieces_(pieces), trie_(listed(pieces)) {
  for (const ScoredPiece& piece : pieces) unknown_score_ = std::min(unknown_score_, piece.score);
  unknown_score_ -= kUnknownPenalty;
}

void UnigramLattice::find_edges(std::string_view text, int32_t without) {
  edges_.clear();
  for (size_t begin = 0; begin < text.size();) {
    const size_t next = begin + characters::read_utf8(text.data() + begin).length;
    bool has_first = false;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size() && trie_.step(node, text[end]);) {
      ++end;
      const int32_t piece = trie_.value(node);
      if (piece < 0 || piece == without) continue;
      edges_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), piece,
                        pieces_[static_cast<size_t>(piece)].score});
      has_first = has_first || end == next;
    }
    if (!has_first)
      edges_.push_back(
          {static_cast<uint32_t>(begin), static_cast<uint32_t>(next), kUnknown, unknown_score_});
    begin = next;
  }
}

double UnigramLattice::add_expected(std::string_view text, double weight,
                                    std::vector<double>& expected) {
  find_edges(text, -2);
  forward_.assign(text.size() + 1, kNever);
  backward_.assign(text.size() + 1, kNever);
  forward_[0] = backward_[text.size()] = 0;
  for (const Edge& edge : edges_)
    forward_[edge.end] = log_sum(forward_[edge.end], forward_[edge.begin] + edge.score);
  for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge)
    backward_[edge->begin] = log_sum(backward_[edge->begin], backward_[edge->end] + edge->score);
  const double whole = forward_[text.size()];
  for (const Edge& edge : edges_)
    if (edge.piece != kUnknown)
      expected[static_cast<size_t>(edge.piece)] +=
          weight * std::exp(forward_[edge.begin] + edge.score + backward_[edge.end] - whole);
  return weight * whole;
}

const std::vector<int32_t>& UnigramLattice::best(std::string_view text, int32_t without) {
  find_edges(text, without);
  forward_.assign(text.size() + 1, kNever);
  forward_[0] = 0;
  last_edge_.assign(text.size() + 1, 0);
  for (size_t i = 0; i < edges_.size(); ++i) {
    const Edge& edge = edges_[i];
    if (const double sum = forward_[edge.begin] + edge.score; sum > forward_[edge.end]) {
      forward_[edge.end] = sum;
      last_edge_[edge.end] = i;
    }
  }
  score_ = forward_[text.size()];
  best_.clear();
  for (size_t end = text.size(); end > 0; end = edges_[last_edge_[end]].begin)
    best_.push_back(edges_[last_edge_[end]].piece);
  std::reverse(best_.begin(), best_.end());
  return best_;
}

}  // namespace megalith::text
