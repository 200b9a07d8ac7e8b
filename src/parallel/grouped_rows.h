// SPDX-License-Identifier: Apache-2.0
// Rows of a column product that go group by group: which of them a tensor rank has where several
// shards share a group.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "tensor/shard.h"

namespace megalith::parallel {

/// Rows of a column product that go group by group, in each group `first` rows and then `second`:
/// of each the tensor shards of a group have equal parts (docs/design/0007-grouped-keys.md). Where
/// there are no more shards than groups, a cut lies between groups and this says nothing.
struct GroupedRows {
  int64_t groups = 0;
  int64_t first = 0;
  int64_t second = 0;
  bool are_shared(int tensor_shards) const { return groups > 0 && tensor_shards > groups; }
};

/// Rows of groups that several tensor shards share, as a rank holds them: whole groups, or parts of
/// one.
class SharedRows {
 public:
  SharedRows(const GroupedRows& rows, int tensor_shards, int tensor_size, int tensor_rank);

  Shard shard() const;
  /// So many that both ranges of a shard are whole numbers of them.
  int equal_parts() const;
  /// The runs of a shard, one after another as they lie here.
  std::vector<Range> runs() const;
  /// The same in the order of shards, each a run of `first` and one of `second` rows; empty: they
  /// lie so.
  std::vector<ShardRun> by_shard() const;

 private:
  GroupedRows rows_;
  int64_t per_group_;    // shards of a group
  int64_t ranks_;        // that share a group
  int64_t groups_;       // that a rank has something of
  int64_t first_group_;  // here
  int64_t part_;         // of the group, here
};

}  // namespace megalith::parallel
