// SPDX-License-Identifier: Apache-2.0
#include "parallel/tree.h"

#include <algorithm>

#include "base/check.h"
#include "base/subtree.h"

namespace megalith::parallel {

bool ranks_fit(int shards, int ranks) { return blocks_are_subtrees(shards, ranks); }

TreeAccumulator::TreeAccumulator(int num_shards)
    : buffers_(static_cast<size_t>(num_shards)), additions_(static_cast<size_t>(num_shards)) {
  MEGA_CHECK(num_shards >= 1, "{} shards", num_shards);
  build(0, num_shards, 0);
}

/// Post-order walk: the left subtree's sum stays in buffer `depth` while the right one is made
/// above.
void TreeAccumulator::build(int lo, int hi, int depth) {
  num_buffers_ = std::max(num_buffers_, depth + 1);
  if (hi - lo == 1) {
    buffers_[static_cast<size_t>(lo)] = depth;
    return;
  }
  const int mid = lo + (hi - lo + 1) / 2;
  build(lo, mid, depth);
  build(mid, hi, depth + 1);
  additions_[static_cast<size_t>(hi - 1)].push_back({depth, depth + 1});
}

}  // namespace megalith::parallel
