// SPDX-License-Identifier: Apache-2.0
#include "parallel/grouped_rows.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/integer.h"

namespace megalith::parallel {

SharedRows::SharedRows(const GroupedRows& rows, int tensor_shards, int tensor_size, int tensor_rank)
    : rows_(rows),
      per_group_(exact_div<int64_t>(tensor_shards, rows.groups)),
      ranks_(std::max<int64_t>(1, tensor_size / rows.groups)),
      groups_(std::max<int64_t>(1, rows.groups / tensor_size)),
      first_group_(tensor_rank * groups_ / ranks_),
      part_(tensor_rank % ranks_) {
  MEGA_CHECK(groups_ * tensor_size == rows.groups * ranks_, "{} tensor ranks share {} groups",
             tensor_size, rows.groups);
  MEGA_CHECK(rows.first % per_group_ == 0 && rows.second % per_group_ == 0,
             "{} tensor shards share groups of {} and {} rows", per_group_, rows.first,
             rows.second);
}

Shard SharedRows::shard() const {
  const int64_t begin = first_group_ * (rows_.first + rows_.second);
  if (ranks_ == 1) return {0, begin, groups_ * (rows_.first + rows_.second)};
  const int64_t first = rows_.first / ranks_, second = rows_.second / ranks_;
  return {0, begin + part_ * first, first, begin + rows_.first + part_ * second, second};
}

int SharedRows::equal_parts() const {
  const int64_t part = std::gcd(rows_.first / per_group_, rows_.second / per_group_);
  return static_cast<int>(rows_.groups * (rows_.first + rows_.second) / part);
}

std::vector<Range> SharedRows::runs() const {
  const int64_t shards = per_group_ / ranks_;
  const int64_t first = rows_.first / per_group_, second = rows_.second / per_group_;
  std::vector<Range> runs;
  int64_t at = 0;
  for (int64_t group = 0; group < groups_; ++group) {
    for (const int64_t rows : {first, second}) {
      for (int64_t s = 0; s < shards; ++s, at += rows) runs.push_back({at, at + rows});
    }
  }
  return runs;
}

std::vector<ShardRun> SharedRows::by_shard() const {
  const int64_t shards = per_group_ / ranks_;  // of a group, here
  if (shards == 1) return {};
  const int64_t first = rows_.first / per_group_, second = rows_.second / per_group_;
  std::vector<ShardRun> runs;
  int64_t at = 0;
  for (int64_t group = 0; group < groups_; ++group) {
    const int64_t begin = group * shards * (first + second);
    for (int64_t s = 0; s < shards; ++s) {
      runs.push_back({begin + s * first, first, at});
      runs.push_back({begin + shards * first + s * second, second, at + first});
      at += first + second;
    }
  }
  return runs;
}

}  // namespace megalith::parallel
