// SPDX-License-Identifier: Apache-2.0
// Memory for keys and values of any number of sequences, in blocks of kernels::kKeyBlock positions
// (paging: Kwon et al. 2023). Who holds which block is the caller's affair.
#pragma once

#include <vector>

#include "engine/sharded_model.h"

namespace megalith::inference {

/// Layers that keep the same positions of a sequence. A block of a group has the keys and values of
/// its positions in all of the group's layers.
struct KvGroup {
  int64_t window = 0;      // positions that a token sees, its own included; 0: all up to its own
  bool is_memory = false;  // what an encoder made of a text, for cross attention: kept whole
  friend bool operator==(const KvGroup&, const KvGroup&) = default;
};
/// The groups of a model, alike on all ranks: those of self-attention as its layers come, then an
/// encoder-decoder's memory.
std::vector<KvGroup> kv_groups(const models::ModelSpec& spec);

class KvBlocks {
 public:
  /// `counts`: blocks of each group. Memory: class activations.
  KvBlocks(engine::ShardedModel& model, std::vector<int64_t> counts);

  const std::vector<KvGroup>& groups() const { return groups_; }
  const std::vector<int64_t>& counts() const { return counts_; }
  /// Of all blocks of a group, on this rank.
  int64_t bytes(size_t group) const;
  /// Block `to` of a group becomes a copy of block `from`. Local; ready as of a later ticket.
  void copy(size_t group, int64_t from, int64_t to);
  /// What the layers of a chunk are given; `sequences` by group.
  layers::KvCacheBinding binding(size_t chunk,
                                 std::span<const kernels::CachedSequences> sequences) const {
    return {chunks_[chunk].layers, chunks_[chunk].memory, sequences};
  }

 private:
  struct Chunk {
    std::vector<layers::CachedLayer> layers, memory;
  };
  std::vector<KvGroup> groups_;
  std::vector<int64_t> counts_;
  device::Device& device_;
  /// The storage of one layer, its blocks as rows.
  struct Storage {
    size_t group = 0;
    device::Tensor blocks;
  };
  std::vector<Storage> storage_;
  std::vector<Chunk> chunks_;
};

}  // namespace megalith::inference
