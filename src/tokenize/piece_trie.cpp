// SPDX-License-Identifier: Apache-2.0
#include "tokenize/piece_trie.h"

#include <algorithm>

#include "base/error.h"

namespace megalith::tokenize {
namespace {

constexpr uint32_t kBlock = 256;
constexpr size_t kMaxUnits = size_t{1} << 26;
// Blocks searched for room, newest first; one that too often has none is left with its gaps.
constexpr size_t kOpenBlocks = 16;
constexpr uint32_t kMostFailures = 32;

}  // namespace

PieceTrie::PieceTrie(std::vector<Piece> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.text < b.text; });
  units_.resize(kBlock);
  units_[0].parent = kNone - 1;  // taken, and nobody's child
  open_.push_back({0, 0});
  std::vector<Range> left{{0, static_cast<uint32_t>(pieces.size()), 0, 0}};
  std::vector<uint8_t> labels;
  std::vector<uint32_t> begins;
  while (!left.empty()) {
    const Range range = left.back();
    left.pop_back();
    uint32_t at = range.begin;
    for (; at < range.end && pieces[at].text.size() == range.depth; ++at)
      units_[range.node].value = pieces[at].value;
    labels.clear();
    begins.clear();
    for (; at < range.end; ++at) {
      const uint8_t label = static_cast<uint8_t>(pieces[at].text[range.depth]);
      if (!labels.empty() && labels.back() == label) continue;
      labels.push_back(label);
      begins.push_back(at);
    }
    if (labels.empty()) {
      units_[range.node].base = range.node & ~(kBlock - 1);
      continue;
    }
    const uint32_t base = place(labels);
    units_[range.node].base = base;
    for (size_t i = 0; i < labels.size(); ++i) {
      const uint32_t child = base ^ labels[i];
      units_[child].parent = range.node;
      const uint32_t end = i + 1 < labels.size() ? begins[i + 1] : range.end;
      left.push_back({begins[i], end, range.depth + 1, child});
    }
  }
  open_ = {};
}

bool PieceTrie::fits(uint32_t base, const std::vector<uint8_t>& labels) const {
  return std::all_of(labels.begin(), labels.end(),
                     [&](uint8_t label) { return units_[base ^ label].parent == kNone; });
}

uint32_t PieceTrie::place(const std::vector<uint8_t>& labels) {
  for (size_t i = open_.size(); i-- > 0;) {
    const uint32_t block = open_[i].begin;
    for (uint32_t base = block; base < block + kBlock; ++base)
      if (fits(base, labels)) return base;
    if (++open_[i].failures == kMostFailures) open_.erase(open_.begin() + static_cast<long>(i));
  }
  if (units_.size() + kBlock > kMaxUnits)
    throw UserError("the vocabulary's tokens are too long: more than {} places in a trie",
                    kMaxUnits);
  const uint32_t block = static_cast<uint32_t>(units_.size());
  units_.resize(units_.size() + kBlock);
  if (open_.size() == kOpenBlocks) open_.erase(open_.begin());
  open_.push_back({block, 0});
  return block;
}

}  // namespace megalith::tokenize
