// SPDX-License-Identifier: Apache-2.0
// The one order in which partial sums combine:
//   tree(lo, hi) = tree(lo, mid) + tree(mid, hi),   mid = lo + (hi - lo + 1) / 2
// Contiguous blocks of shards that are whole subtrees may be summed separately (on a rank, in a
// kernel) without changing a bit.
#pragma once

#include <span>
#include <vector>

namespace megalith::parallel {

/// True if `ranks` equal contiguous blocks of `shards` shards are subtrees, and the tree over the
/// blocks is the tree over the shards: one rank, one shard per rank, or both even and the halves
/// fit.
bool ranks_fit(int shards, int ranks);

/// The order of additions when shards come one after the other: as few buffers as a binary counter
/// has digits, floor(log2(shards)) + 1 for powers of two. Pure schedule; the caller owns the
/// buffers.
///
///   for shard in 0 .. num_shards - 1:
///     zero buffer_of(shard), sum the shard into it
///     for each addition of additions_after(shard): buffer[into] += buffer[from]
///   the sum is in buffer 0
class TreeAccumulator {
 public:
  struct Addition {
    int into = 0;
    int from = 0;
    friend bool operator==(const Addition&, const Addition&) = default;
  };

  explicit TreeAccumulator(int num_shards);

  int num_shards() const { return static_cast<int>(buffers_.size()); }
  int num_buffers() const { return num_buffers_; }
  int buffer_of(int shard) const { return buffers_[static_cast<size_t>(shard)]; }
  std::span<const Addition> additions_after(int shard) const {
    return additions_[static_cast<size_t>(shard)];
  }

 private:
  void build(int lo, int hi, int depth);
  int num_buffers_ = 0;
  std::vector<int> buffers_;
  std::vector<std::vector<Addition>> additions_;
};

}  // namespace megalith::parallel
