// SPDX-License-Identifier: Apache-2.0
#include "generate/block_store.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

using inference::KvGroup;

BlockStore::BlockStore(std::vector<KvGroup> groups, std::vector<int64_t> counts,
                       int64_t most_tokens, bool keeps)
    : groups_(std::move(groups)), pools_(groups_.size()), most_tokens_(most_tokens), keeps_(keeps) {
  MEGA_CHECK_EQ(counts.size(), groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    // What an encoder made of a text stands behind every token of the other stack.
    keeps_ = keeps_ && !groups_[g].is_memory;
    pools_[g].blocks.resize(static_cast<size_t>(counts[g]));
    for (int64_t b = counts[g]; b-- > 0;) pools_[g].free.push_back(static_cast<int32_t>(b));
  }
}

BlockStore::~BlockStore() = default;

/// The first block that a token at `positions` or later sees.
int64_t BlockStore::first_seen(size_t g, int64_t positions) const {
  const int64_t window = groups_[g].window;
  return window == 0 ? 0 : std::max<int64_t>(positions - window + 1, 0) / kBlock;
}

std::vector<int64_t> BlockStore::needed(std::span<const KvGroup> groups, const Size& size,
                                        int64_t most_tokens) {
  std::vector<int64_t> blocks;
  for (const KvGroup& group : groups) {
    if (group.is_memory) {
      blocks.push_back(kernels::kv_cache_blocks(size.memory));
      continue;
    }
    int64_t each = kernels::kv_cache_blocks(size.positions);
    // What the first of a pass's tokens sees of those before, and the pass, wherever blocks begin.
    if (group.window > 0)
      each = std::min(each, kernels::kv_cache_blocks(group.window - 1 + most_tokens) + 1);
    const int64_t common = group.window > 0 ? 0 : size.common / kBlock;
    blocks.push_back(common + size.lines * (each - common));
  }
  return blocks;
}

bool BlockStore::can_hold(const Size& size) const {
  const std::vector<int64_t> blocks = needed(groups_, size, most_tokens_);
  for (size_t g = 0; g < groups_.size(); ++g)
    if (blocks[g] > count(g)) return false;
  return true;
}

int32_t BlockStore::take(size_t g) {
  Pool& pool = pools_[g];
  if (pool.free.empty()) forget(g, pool.kept.front());
  const int32_t block = pool.free.back();
  pool.free.pop_back();
  pool.blocks[static_cast<size_t>(block)].holders = 1;
  ++pool.in_use;
  return block;
}

void BlockStore::hold(size_t g, int32_t block) {
  Pool& pool = pools_[g];
  Block& b = pool.blocks[static_cast<size_t>(block)];
  if (b.holders++ > 0) return;
  pool.kept.erase(b.in_kept);
  ++pool.in_use;
}

void BlockStore::release(size_t g, int32_t block) {
  Pool& pool = pools_[g];
  Block& b = pool.blocks[static_cast<size_t>(block)];
  MEGA_CHECK(b.holders > 0, "block {} of group {} has no holder", block, g);
  if (--b.holders > 0) return;
  --pool.in_use;
  if (b.content == nullptr) {
    pool.free.push_back(block);
  } else {
    b.in_kept = pool.kept.insert(pool.kept.end(), block);
  }
}

/// A kept block becomes a free one.
void BlockStore::forget(size_t g, int32_t block) {
  Pool& pool = pools_[g];
  Block& b = pool.blocks[static_cast<size_t>(block)];
  Prefix* const content = std::exchange(b.content, nullptr);
  content->blocks[g] = -1;
  pool.kept.erase(b.in_kept);
  pool.free.push_back(block);
  remove_empty(content);
}

/// Prefixes that no block has and nothing longer stands on.
void BlockStore::remove_empty(Prefix* prefix) {
  const auto is_empty = [](const Prefix& p) {
    return p.ends == 0 && p.longer.empty() &&
           std::ranges::all_of(p.blocks, [](int32_t b) { return b < 0; });
  };
  while (prefix->parent != nullptr && is_empty(*prefix)) {
    Prefix* const parent = prefix->parent;
    parent->longer.erase(prefix->self);
    prefix = parent;
  }
}

/// `held` is known up to `prefix` (null: nothing), which lives as long as it is.
void BlockStore::go_to(Held& held, Prefix* prefix) {
  if (prefix != nullptr) ++prefix->ends;
  Prefix* const before = std::exchange(held.known_, prefix);
  if (before == nullptr) return;
  --before->ends;
  remove_empty(before);
}

BlockStore::Prefix* BlockStore::root(uint64_t salt) {
  std::unique_ptr<Prefix>& root = roots_[salt];
  if (root == nullptr) root = std::make_unique<Prefix>();
  return root.get();
}

/// Whether block `index` of a sequence, which this prefix ends with, is here in every group where a
/// token behind `blocks` blocks sees it.
bool BlockStore::has_all_for(const Prefix& prefix, int64_t index, int64_t blocks) const {
  for (size_t g = 0; g < groups_.size(); ++g)
    if (index >= first_seen(g, blocks * kBlock) && prefix.blocks[g] < 0) return false;
  return true;
}

int64_t BlockStore::begin(Held& held, uint64_t salt, std::span<const int32_t> ids) {
  MEGA_CHECK(held.tables_.empty(), "a sequence begins twice");
  held.tables_.resize(groups_.size());
  held.begins_.resize(groups_.size());
  if (!keeps_ || ids.empty()) return 0;
  std::vector<Prefix*> path;
  Prefix* at = root(salt);
  const int64_t most = (std::ssize(ids) - 1) / kBlock;
  for (int64_t i = 0; i < most; ++i) {
    const auto part = ids.subspan(static_cast<size_t>(i * kBlock), static_cast<size_t>(kBlock));
    const auto found = at->longer.find({part.begin(), part.end()});
    if (found == at->longer.end()) break;
    path.push_back(at = found->second.get());
  }
  // The longest of which all that later tokens see is here.
  int64_t count = std::ssize(path);
  const auto complete = [&](int64_t blocks) {
    for (int64_t i = 0; i < blocks; ++i)
      if (!has_all_for(*path[static_cast<size_t>(i)], i, blocks)) return false;
    return true;
  };
  while (count > 0 && !complete(count)) --count;
  for (size_t g = 0; g < groups_.size(); ++g) {
    held.begins_[g] = std::min(first_seen(g, count * kBlock), count);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t block = i < held.begins_[g] ? -1 : path[static_cast<size_t>(i)]->blocks[g];
      if (block >= 0) hold(g, block);
      held.tables_[g].push_back(block);
    }
  }
  held.num_known_ = count;
  held.positions_ = count * kBlock;
  if (count > 0) go_to(held, path[static_cast<size_t>(count - 1)]);
  return count * kBlock;
}

void BlockStore::fork(const Held& from, int64_t positions, Held& to) {
  MEGA_CHECK(to.tables_.empty(), "a sequence begins twice");
  MEGA_CHECK(
      positions == from.positions_ || (positions < from.positions_ && positions % kBlock == 0),
      "{} of {} positions are not whole blocks", positions, from.positions_);
  to.tables_.resize(groups_.size());
  to.begins_ = from.begins_;
  to.positions_ = positions;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto count =
        groups_[g].is_memory ? std::ssize(from.tables_[g]) : kernels::kv_cache_blocks(positions);
    to.begins_[g] = std::min(from.begins_[g], count);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t block = from.tables_[g][static_cast<size_t>(i)];
      if (block >= 0) hold(g, block);
      to.tables_[g].push_back(block);
    }
  }
  to.num_known_ = std::min(from.num_known_, positions / kBlock);
  Prefix* known = from.known_;
  for (int64_t n = from.num_known_; n > to.num_known_; --n) known = known->parent;
  if (to.num_known_ > 0) go_to(to, known);
}

/// Whether the block that is written next holds something already, and others hold it too.
bool BlockStore::shares_last(const Held& held, size_t g) const {
  if (groups_[g].is_memory || held.positions_ % kBlock == 0) return false;
  const int32_t block = held.tables_[g][static_cast<size_t>(held.positions_ / kBlock)];
  return pools_[g].blocks[static_cast<size_t>(block)].holders > 1;
}

/// Blocks of group g that it has to take.
int64_t BlockStore::missing(const Held& held, size_t g, int64_t positions, int64_t memory) const {
  const int64_t blocks = kernels::kv_cache_blocks(groups_[g].is_memory ? memory : positions);
  return std::max<int64_t>(blocks - std::ssize(held.tables_[g]), 0) +
         (shares_last(held, g) ? 1 : 0);
}

bool BlockStore::leaves(const Held& held, int64_t positions, int64_t memory, int64_t spare) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t more = missing(held, g, positions, memory);
    if (more > 0 && more + (groups_[g].is_memory ? 0 : spare) > pools_[g].available()) return false;
  }
  return true;
}

bool BlockStore::extend(Held& held, int64_t positions, int64_t memory) {
  if (!leaves(held, positions, memory, 0)) return false;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!shares_last(held, g)) continue;
    int32_t& last = held.tables_[g][static_cast<size_t>(held.positions_ / kBlock)];
    const int32_t own = take(g);
    copies_.push_back({g, last, own});
    release(g, std::exchange(last, own));
  }
  for (size_t g = 0; g < groups_.size(); ++g)
    for (int64_t n = missing(held, g, positions, memory); n > 0; --n)
      held.tables_[g].push_back(take(g));
  return true;
}

void BlockStore::written(Held& held, uint64_t salt, std::span<const int32_t> ids) {
  held.positions_ = std::ssize(ids);
  const int64_t full = std::ssize(ids) / kBlock;
  for (; keeps_ && held.num_known_ < full; ++held.num_known_) {
    const int64_t i = held.num_known_;
    Prefix* const parent = held.known_ != nullptr ? held.known_ : root(salt);
    const auto part = ids.subspan(static_cast<size_t>(i * kBlock), static_cast<size_t>(kBlock));
    const auto [at, is_new] = parent->longer.try_emplace({part.begin(), part.end()});
    if (is_new) {
      at->second = std::make_unique<Prefix>();
      at->second->parent = parent;
      at->second->self = at;
      at->second->blocks.assign(groups_.size(), -1);
    }
    Prefix& prefix = *at->second;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int32_t block = held.tables_[g][static_cast<size_t>(i)];
      if (block < 0 || prefix.blocks[g] >= 0) continue;  // another sequence was here first
      prefix.blocks[g] = block;
      pools_[g].blocks[static_cast<size_t>(block)].content = &prefix;
    }
    go_to(held, &prefix);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].is_memory) continue;
    for (; held.begins_[g] < first_seen(g, std::ssize(ids)); ++held.begins_[g])
      release(g, std::exchange(held.tables_[g][static_cast<size_t>(held.begins_[g])], -1));
  }
}

void BlockStore::release(Held& held) {
  // The last blocks are given up first: a prefix without its beginning is of no use.
  for (size_t g = 0; g < held.tables_.size(); ++g) {
    for (auto block = held.tables_[g].rbegin(); block != held.tables_[g].rend(); ++block)
      if (*block >= 0) release(g, *block);
  }
  go_to(held, nullptr);
  held = {};
}

void BlockStore::check() const {
  for (size_t g = 0; g < pools_.size(); ++g) {
    const Pool& pool = pools_[g];
    std::vector<int> places(pool.blocks.size());
    for (const int32_t block : pool.free) {
      ++places[static_cast<size_t>(block)];
      MEGA_CHECK(pool.blocks[static_cast<size_t>(block)].content == nullptr);
    }
    for (const int32_t block : pool.kept) ++places[static_cast<size_t>(block)];
    int64_t held = 0;
    for (size_t b = 0; b < places.size(); ++b) {
      const bool is_held = pool.blocks[b].holders > 0;
      held += is_held ? 1 : 0;
      MEGA_CHECK(places[b] + (is_held ? 1 : 0) == 1, "block {} of group {} is in {} places", b, g,
                 places[b] + (is_held ? 1 : 0));
      const Prefix* const content = pool.blocks[b].content;
      MEGA_CHECK(content == nullptr || content->blocks[g] == static_cast<int32_t>(b));
    }
    MEGA_CHECK_EQ(held, pool.in_use);
  }
}

}  // namespace megalith::generate
