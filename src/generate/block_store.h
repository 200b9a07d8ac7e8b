// SPDX-License-Identifier: Apache-2.0
// Which blocks of keys and values hold which sequence (inference/kv_blocks.h). Full blocks of
// tokens that begin alike are shared, and what a sequence leaves behind is kept as long as nobody
// needs the room, so that a prompt that begins like an earlier one is not read again (prefix
// caching: Zheng et al. 2024, section 3). Those blocks are full and never written. A fork shares
// the last, partial one too: whoever writes to it while others hold it goes on in a copy. Exact:
// prefixes are compared token by token. Host memory alone; no model.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "inference/cached_rows.h"

namespace megalith::generate {

class BlockStore {
  struct Prefix;

 public:
  /// Positions of a block.
  static constexpr int64_t kBlock = kernels::kKeyBlock;

  /// What one sequence holds.
  class Held {
   public:
    const inference::BlockTables& tables() const { return tables_; }

   private:
    friend class BlockStore;
    inference::BlockTables tables_;  // -1: behind the window
    std::vector<int64_t> begins_;    // by group: blocks before this one were given back
    int64_t positions_ = 0;          // whose keys and values are there
    Prefix* known_ = nullptr;        // of the full blocks whose content was told
    int64_t num_known_ = 0;
  };
  /// A block whose content goes on in another.
  struct Copy {
    size_t group = 0;
    int32_t from = 0, to = 0;
  };

  /// `counts`: blocks of each group. `most_tokens`: of a sequence between two calls of written().
  /// `keeps`: blocks are kept for others that begin alike.
  BlockStore(std::vector<inference::KvGroup> groups, std::vector<int64_t> counts,
             int64_t most_tokens, bool keeps);
  ~BlockStore();
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  /// What one sequence may come to have.
  struct Size {
    int64_t positions = 0;
    int64_t memory = 0;  // tokens that an encoder reads for it
    int64_t lines = 1;   // that fork behind `common` positions
    int64_t common = 0;
  };
  /// Blocks of each group that it, alone, holds at most at one time.
  static std::vector<int64_t> needed(std::span<const inference::KvGroup> groups, const Size& size,
                                     int64_t most_tokens);
  /// Whether these are ever to be had.
  bool can_hold(const Size& size) const;

  /// Begins with what is known of `ids`; `salt` tells apart what reads them differently (adapters).
  /// Returns the positions found: whole blocks, and not all of ids, whose last has to be read.
  int64_t begin(Held& held, uint64_t salt, std::span<const int32_t> ids);
  /// `to`, which holds nothing, holds what `from` does of the first `positions` positions, and the
  /// encoder's tokens: those written, or whole blocks of them (behind which `from` must not have
  /// gone on, where groups have windows).
  void fork(const Held& from, int64_t positions, Held& to);
  /// Room to write positions from those that are there up to `positions`, and `memory` tokens of an
  /// encoder; false, and nothing changed, if there is none. May add copies.
  bool extend(Held& held, int64_t positions, int64_t memory = 0);
  /// Copies to be made, in this order, before anything is written; then they are forgotten.
  std::vector<Copy> take_copies() { return std::exchange(copies_, {}); }
  /// Whether extend() would leave `spare` blocks of every group of tokens that it takes some of.
  bool leaves(const Held& held, int64_t positions, int64_t memory, int64_t spare) const;
  /// `ids`, the sequence from its beginning, are in their blocks: those full may be shared, those
  /// before every later token's window are given back.
  void written(Held& held, uint64_t salt, std::span<const int32_t> ids);
  void release(Held& held);

  /// Blocks of group g that sequences hold; the others may be had.
  int64_t in_use(size_t g) const { return pools_[g].in_use; }
  int64_t count(size_t g) const { return std::ssize(pools_[g].blocks); }
  /// Blocks kept of sequences that have ended.
  int64_t kept(size_t g) const { return std::ssize(pools_[g].kept); }
  /// Throws InternalError unless every block is in exactly one place.
  void check() const;

 private:
  /// The first tokens of sequences, a block at a time: a tree.
  struct Prefix {
    Prefix* parent = nullptr;
    std::map<std::vector<int32_t>, std::unique_ptr<Prefix>> longer;
    std::map<std::vector<int32_t>, std::unique_ptr<Prefix>>::iterator self;
    std::vector<int32_t> blocks;  // by group; -1: not here
    int64_t ends = 0;             // sequences that hold it, and nothing longer
  };
  struct Block {
    int64_t holders = 0;
    Prefix* content = nullptr;             // if known
    std::list<int32_t>::iterator in_kept;  // without holders, known
  };
  struct Pool {
    std::vector<Block> blocks;
    std::vector<int32_t> free;
    std::list<int32_t> kept;  // without holders: first the one to give up first
    int64_t in_use = 0;
    int64_t available() const { return std::ssize(free) + std::ssize(kept); }
  };
  int32_t take(size_t g);
  void hold(size_t g, int32_t block);
  void release(size_t g, int32_t block);
  void forget(size_t g, int32_t block);
  void remove_empty(Prefix* prefix);
  void go_to(Held& held, Prefix* prefix);
  int64_t missing(const Held& held, size_t g, int64_t positions, int64_t memory) const;
  bool shares_last(const Held& held, size_t g) const;
  bool has_all_for(const Prefix& prefix, int64_t index, int64_t blocks) const;
  int64_t first_seen(size_t g, int64_t positions) const;
  Prefix* root(uint64_t salt);

  std::vector<inference::KvGroup> groups_;
  std::vector<Pool> pools_;
  int64_t most_tokens_;
  bool keeps_;
  std::vector<Copy> copies_;
  std::map<uint64_t, std::unique_ptr<Prefix>> roots_;
};

}  // namespace megalith::generate
