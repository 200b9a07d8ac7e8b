// SPDX-License-Identifier: Apache-2.0
// Which rank counts fit a canonical split: sums combine in one balanced binary tree over shards,
// and a rank must hold whole subtrees of it (docs/design/0001-exact-arithmetic.md).
#pragma once

#include <cstdint>

namespace megalith {

/// True if `ranks` equal contiguous blocks of `shards` shards are subtrees, and the tree over the
/// blocks is the tree over the shards: one rank, one shard per rank, or both even and the halves
/// fit.
constexpr bool blocks_are_subtrees(int64_t shards, int64_t ranks) {
  if (ranks < 1 || shards < 1) return false;
  while (ranks != 1 && ranks != shards) {
    if (shards % 2 != 0 || ranks % 2 != 0) return false;
    shards /= 2;
    ranks /= 2;
  }
  return true;
}

/// Whether so many equal shares of key/value heads are whole heads, or parts of one each. Of
/// canonical shards and of ranks alike.
constexpr bool shares_of_heads(int64_t shares, int64_t kv_heads) {
  return kv_heads % shares == 0 || shares % kv_heads == 0;
}

}  // namespace megalith
