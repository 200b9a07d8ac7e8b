// SPDX-License-Identifier: Apache-2.0
#include "parameters/ownership.h"

#include <algorithm>
#include <numeric>

#include "base/integer.h"
#include "kernels/reduction/norms.h"

namespace megalith::parameters {
namespace {

/// A parameter's cuts: every `step` elements inside each of its shards.
struct Spacing {
  int64_t shard, step;
};

Spacing spacing_of(const Parameter& parameter) {
  const int64_t elements = parameter.local_elements();
  if (parameter.declaration().gradient_partials > 1) return {elements, elements};
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
  return {shard, step};
}

/// The cut nearest to `at`, 0 <= at < the parameter's elements; its end counts, of two the lower.
int64_t nearest_cut(const Parameter& parameter, int64_t at) {
  const auto [shard, step] = spacing_of(parameter);
  const int64_t begin = at / shard * shard;
  const int64_t below = begin + (at - begin) / step * step;
  const int64_t above = std::min(below + step, begin + shard);
  return at - below <= above - at ? below : above;
}

/// Frozen parameters take part with none.
int64_t trained_elements(const Parameter& parameter) {
  return parameter.trainable() ? parameter.local_elements() : 0;
}

int64_t elements_of(const std::deque<Parameter>& parameters, const ParameterRun& group) {
  int64_t elements = 0;
  for (size_t i = group.begin; i < group.end; ++i) elements += trained_elements(parameters[i]);
  return elements;
}

/// The same in the elements of a group, 0 <= at <= all of them.
int64_t nearest_cut(const std::deque<Parameter>& parameters, const ParameterRun& group,
                    int64_t at) {
  int64_t base = 0;
  for (size_t i = group.begin; i < group.end; ++i) {
    const int64_t count = trained_elements(parameters[i]);
    if (at < base + count) return base + nearest_cut(parameters[i], at - base);
    base += count;
  }
  return base;
}

bool is_tied(const Parameter& parameter) {
  return parameter.num_gradients() > 1 && parameter.trainable();
}

/// Cuts one group after the other.
class Divider {
 public:
  Divider(const std::deque<Parameter>& parameters, int owners)
      : parameters_(parameters), owners_(owners), given_(static_cast<size_t>(owners), 0) {}

  /// Where in the group's elements each owner's begin, and their end.
  std::vector<int64_t> cut(const ParameterRun& group) {
    const int64_t elements = elements_of(parameters_, group);
    const bool alone = is_tied(parameters_[group.begin]);
    const int64_t so_far = alone ? elements : all_ + elements;
    std::vector<int64_t> begins{0};
    for (int owner = 1; owner < owners_; ++owner) {
      int64_t& given = given_[static_cast<size_t>(owner)];
      const int64_t share = so_far / owners_ * owner + so_far % owners_ * owner / owners_;
      const int64_t wanted = std::clamp(share - (alone ? 0 : given), int64_t{0}, elements);
      begins.push_back(std::max(begins.back(), nearest_cut(parameters_, group, wanted)));
      if (!alone) given += begins.back();
    }
    begins.push_back(elements);
    if (!alone) all_ = so_far;
    return begins;
  }

 private:
  const std::deque<Parameter>& parameters_;
  int owners_;
  int64_t all_ = 0;             // elements of the groups so far
  std::vector<int64_t> given_;  // of those, what lies before each owner's
};

}  // namespace

std::vector<int64_t> ownership_cuts(const Parameter& parameter) {
  const int64_t elements = parameter.local_elements();
  std::vector<int64_t> cuts{0};
  if (elements == 0) return cuts;
  const auto [shard, step] = spacing_of(parameter);
  for (int64_t begin = 0; begin < elements; begin += shard) {
    for (int64_t at = begin; at < begin + shard; at += step) {
      if (at > 0) cuts.push_back(at);
    }
  }
  return cuts;
}

std::vector<ParameterRun> ownership_groups(const std::deque<Parameter>& parameters, int64_t least) {
  std::vector<ParameterRun> groups;
  int64_t elements = 0;  // of the last group
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool alone = is_tied(parameters[i]) || (i > 0 && is_tied(parameters[i - 1]));
    if (groups.empty() || alone || elements >= least) {
      groups.push_back({i, i});
      elements = 0;
    }
    groups.back().end = i + 1;
    elements += trained_elements(parameters[i]);
  }
  return groups;
}

Ownership owned_ranges(const std::deque<Parameter>& parameters, int owners, int64_t least) {
  Divider divider(parameters, owners);
  Ownership ranges(static_cast<size_t>(owners));
  for (const ParameterRun& group : ownership_groups(parameters, least)) {
    const std::vector<int64_t> begins = divider.cut(group);
    int64_t base = 0;
    for (size_t i = group.begin; i < group.end; ++i) {
      const int64_t count = trained_elements(parameters[i]);
      for (size_t owner = 0; owner < ranges.size(); ++owner) {
        const int64_t from = std::clamp(begins[owner] - base, int64_t{0}, count);
        const int64_t to = std::clamp(begins[owner + 1] - base, int64_t{0}, count);
        ranges[owner].push_back({from, to - from});
      }
      base += count;
    }
  }
  return ranges;
}

}  // namespace megalith::parameters
