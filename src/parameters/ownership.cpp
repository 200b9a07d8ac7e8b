// SPDX-License-Identifier: Apache-2.0
#include "parameters/ownership.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/integer.h"
#include "kernels/reduction/norms.h"

namespace megalith::parameters {
namespace {

/// Parameters [begin, end) that are cut as one run of elements.
struct Group {
  size_t begin, end;
};

std::vector<Group> groups_of(const std::deque<Parameter>& parameters) {
  std::vector<Group> groups;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool alone = parameters[i].num_gradients() > 1;
    const bool before = i > 0 && parameters[i - 1].num_gradients() > 1;
    if (groups.empty() || alone || before) groups.push_back({i, i});
    groups.back().end = i + 1;
  }
  return groups;
}

/// Where in the group's elements owner `owner` begins: the cut nearest to an equal share.
int64_t begin_of(const std::deque<Parameter>& parameters, const Group& group, int64_t elements,
                 int owner, int owners) {
  if (owner == owners) return elements;
  const int64_t share = elements / owners * owner + elements % owners * owner / owners;
  int64_t best = 0, base = 0;
  for (size_t i = group.begin; i < group.end; ++i) {
    const int64_t count = parameters[i].local_elements();
    if (base + count >= share - count) {  // a cut of this parameter may be the nearest
      for (const int64_t cut : ownership_cuts(parameters[i])) {
        if (std::abs(base + cut - share) < std::abs(best - share)) best = base + cut;
      }
    }
    if (base > share) break;
    base += count;
  }
  return std::abs(elements - share) < std::abs(best - share) ? elements : best;
}

}  // namespace

std::vector<int64_t> ownership_cuts(const Parameter& parameter) {
  const int64_t elements = parameter.local_elements();
  std::vector<int64_t> cuts{0};
  if (parameter.declaration().gradient_partials > 1 || elements == 0) return cuts;
  const int64_t shards = parameter.local_canonical_shards();
  const bool by_columns = parameter.declaration().shard.dim == 1 && shards > 1;
  // Partial sums run through one canonical shard after the other. Shards of columns lie side by
  // side, so a run of whole rows has to end a partial sum in each of them.
  const int64_t shard = by_columns ? elements : elements / shards;
  int64_t step = kernels::kSquaresBlock;
  if (by_columns) {
    const int64_t columns = parameter.local_shape()[1] / shards;
    step = kernels::kSquaresBlock / std::gcd(columns, kernels::kSquaresBlock) *
           parameter.local_shape()[1];
  }
  for (int64_t begin = 0; begin < elements; begin += shard) {
    for (int64_t at = begin; at < begin + shard; at += step) {
      if (at > 0) cuts.push_back(at);
    }
  }
  return cuts;
}

std::vector<ElementRange> owned_ranges(const std::deque<Parameter>& parameters, int owner,
                                       int owners) {
  MEGA_CHECK(owner >= 0 && owner < owners, "owner {} of {}", owner, owners);
  std::vector<ElementRange> ranges;
  for (const Group& group : groups_of(parameters)) {
    int64_t elements = 0;
    for (size_t i = group.begin; i < group.end; ++i) elements += parameters[i].local_elements();
    const int64_t begin = begin_of(parameters, group, elements, owner, owners);
    const int64_t end = begin_of(parameters, group, elements, owner + 1, owners);
    int64_t base = 0;
    for (size_t i = group.begin; i < group.end; ++i) {
      const int64_t count = parameters[i].local_elements();
      const int64_t from = std::clamp(begin - base, int64_t{0}, count);
      const int64_t to = std::clamp(end - base, int64_t{0}, count);
      ranges.push_back({from, to - from});
      base += count;
    }
  }
  return ranges;
}

}  // namespace megalith::parameters
