// SPDX-License-Identifier: Apache-2.0
// Buckets of the distances between positions (Raffel et al. 2020, section 2.1): one for each small
// distance, then wider and wider ones, evenly in the logarithm, and one for all from max_distance
// on.
#pragma once

#include <cstdint>
#include <string>

namespace megalith::kernels {

/// Of the distance j - i from a query at i to a key at j. Bidirectional: the first half is for keys
/// before the query and itself, the second for those behind it. Else all are for keys before it and
/// itself, and those behind it are at distance 0. A value: it travels with a call.
struct RelativeBuckets {
  int64_t count = 0;
  int64_t max_distance = 128;
  bool bidirectional = false;

  /// As transformers' T5 has it, whose logarithms and their quotient are rounded to f32: some
  /// distances whose exact logarithm begins a bucket hang on that.
  int64_t of(int64_t distance) const;
  /// Why there are no such buckets, in words; empty: there are.
  std::string fault() const;
};

}  // namespace megalith::kernels
