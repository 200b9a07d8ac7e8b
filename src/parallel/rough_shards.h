// SPDX-License-Identifier: Apache-2.0
// Partial results whose sum depends on the order of the additions, and their sum in the canonical
// order by plain loops: for tests of everything that adds over shards.
#pragma once

#include <cmath>
#include <random>
#include <vector>

namespace megalith::parallel {

/// Shard s's partial: magnitudes from 2^-20 to 2^20, so that every order rounds in its own way.
inline std::vector<float> rough_shard(int s, int64_t n) {
  std::mt19937 random(static_cast<unsigned>(1000 * s + 17));
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) {
    value = std::ldexp(static_cast<float>(random()) / 4294967296.0f - 0.5f,
                       static_cast<int>(random() % 41) - 20);
  }
  return x;
}

inline std::vector<float> added(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

/// The tree over the shards [lo, hi).
inline std::vector<float> tree_of_rough_shards(int lo, int hi, int64_t n) {
  if (hi - lo == 1) return rough_shard(lo, n);
  const int mid = lo + (hi - lo + 1) / 2;
  return added(tree_of_rough_shards(lo, mid, n), tree_of_rough_shards(mid, hi, n));
}

}  // namespace megalith::parallel
