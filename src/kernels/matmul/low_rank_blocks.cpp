// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/low_rank_blocks.h"

#include <algorithm>

namespace megalith::kernels {
namespace {

bool is_same(const Range& a, const Range& b) { return a.begin == b.begin && a.end == b.end; }

/// The end of the outputs from `begin` on whose ranks are `one` and `other` in turn.
int64_t end_of_turns(std::span<const Range> ranks, int64_t begin, Range one, Range other) {
  const Range turns[] = {one, other};
  int64_t at = begin;
  while (at < std::ssize(ranks) && is_same(ranks[static_cast<size_t>(at)], turns[(at - begin) % 2]))
    ++at;
  return at;
}

}  // namespace

std::vector<LowRankBlock> blocks_of(std::span<const Range> ranks) {
  std::vector<LowRankBlock> blocks;
  for (int64_t o = 0, end = 0; o < std::ssize(ranks); o = end) {
    const Range own = ranks[static_cast<size_t>(o)];
    end = end_of_turns(ranks, o, own, own);
    if (own.empty()) continue;
    LowRankBlock block{{o, end}, {own.begin, own.begin}, own.size()};
    if (end == o + 1 && end < std::ssize(ranks)) {
      const Range other = ranks[static_cast<size_t>(end)];
      const int64_t turns = end_of_turns(ranks, o, own, other);
      if (turns > end + 1 && other.size() == own.size()) {
        block = {{o, turns}, {own.begin, other.begin}, own.size()};
      } else if (turns > end + 1) {  // of different ranks, or none: those of both
        const int64_t first = other.empty() ? own.begin : std::min(own.begin, other.begin);
        block = {{o, turns}, {first, first}, std::max(own.end, other.end) - first};
      }
      end = block.columns.end;
    }
    blocks.push_back(block);
  }
  // None at all would say that the factor is not packed.
  if (blocks.empty() && !ranks.empty()) blocks.push_back({{0, std::ssize(ranks)}, {0, 0}, 0});
  return blocks;
}

std::vector<LowRankBlock> blocks_of(std::span<const Range> ranks, const Shard& part) {
  std::vector<Range> held;
  for (const ShardRun& run : part.runs()) {
    const auto own = ranks.subspan(static_cast<size_t>(run.begin), static_cast<size_t>(run.count));
    held.insert(held.end(), own.begin(), own.end());
  }
  return blocks_of(held);
}

int64_t packed_rank(std::span<const LowRankBlock> blocks) {
  int64_t most = 0;
  for (const LowRankBlock& block : blocks) most = std::max(most, block.ranks);
  return most;
}

std::vector<float> packed(std::span<const float> b_RO, int64_t outputs,
                          std::span<const LowRankBlock> blocks, int64_t packed) {
  std::vector<float> b_PO(static_cast<size_t>(packed * outputs));
  for (const auto& [columns, first, ranks] : blocks) {
    for (int64_t r = 0; r < ranks; ++r) {
      for (int64_t o = columns.begin; o < columns.end; ++o) {
        const int64_t from = first[static_cast<size_t>(o - columns.begin) % 2] + r;
        b_PO[static_cast<size_t>(r * outputs + o)] = b_RO[static_cast<size_t>(from * outputs + o)];
      }
    }
  }
  return b_PO;
}

}  // namespace megalith::kernels
