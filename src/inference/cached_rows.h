// SPDX-License-Identifier: Apache-2.0
// The rows of one pass over sequences whose keys and values are in blocks.
#pragma once

#include <span>
#include <vector>

#include "inference/kv_blocks.h"
#include "inference/text_batch.h"

namespace megalith::inference {

/// Which blocks of each group hold a sequence: position p is in block [p / kernels::kKeyBlock].
/// Entries wholly before the window of a sequence's next token are never read.
using BlockTables = std::vector<std::vector<int32_t>>;

/// The next tokens of one sequence.
struct SequenceRows {
  std::span<const int32_t> ids;         // at positions [past, past + ids.size())
  int64_t past = 0;                     // whose keys and values are there
  int64_t reach = 0;                    // positions that it may come to have: for scaled positions
  const BlockTables* blocks = nullptr;  // with room for all of them
  int64_t memory = 0;                   // tokens that an encoder read for it
  int64_t num_logits = 1;               // wanted are those that follow each of so many last ids
  /// Tokens behind ids from number `first_target` on: their logprobs are wanted.
  std::span<const int32_t> targets = {};
  int64_t first_target = 0;
  /// Null: that of the model (ShardedModel::set_adapter), if no sequence of the pass has one.
  const layers::Adapter* adapter = nullptr;
};

/// Owns what the layers are given of such rows. Stays where it was made. Memory: class workspace.
class CachedRows {
 public:
  CachedRows(device::Device& device, const std::vector<KvGroup>& groups,
             std::span<const SequenceRows> rows);
  CachedRows(const CachedRows&) = delete;
  CachedRows& operator=(const CachedRows&) = delete;

  const layers::Batch& batch() const { return text_.batch(); }
  /// By group.
  std::span<const kernels::CachedSequences> sequences() const { return sequences_; }

 private:
  /// Host lists that kernels read, and the table of one group.
  struct Group {
    std::vector<int32_t> cu_seqlens, past;
  };
  kernels::CachedSequences place(Group& group, const std::vector<int32_t>& tables, int64_t width);
  TextBatch text_;
  device::StagedCopies copies_;
  std::vector<Group> groups_;
  std::vector<kernels::CachedSequences> sequences_;
};

/// What an encoder reads, to be kept in the blocks of `tables`: of all groups the memory's alone is
/// filled in. Owns it like the above.
class KeptRows {
 public:
  KeptRows(device::Device& device, const std::vector<KvGroup>& groups, std::span<const int32_t> ids,
           const BlockTables& tables);
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;
  const layers::Batch& batch() const { return text_.batch(); }
  std::span<const kernels::CachedSequences> sequences() const { return sequences_; }

 private:
  TextBatch text_;
  device::StagedCopies copies_;
  std::vector<kernels::CachedSequences> sequences_;
};

}  // namespace megalith::inference
