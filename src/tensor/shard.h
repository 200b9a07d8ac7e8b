// SPDX-License-Identifier: Apache-2.0
// Which part of a logical tensor a rank holds: a contiguous range along one dimension, or two of
// them (a rank's query rows of the fused projection, and its key/value rows behind all queries).
#pragma once

#include <array>

#include "tensor/shape.h"

namespace megalith {

/// Indices [begin, begin + count) of a logical tensor, at `local` in what is held.
struct ShardRun {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t local = 0;
};

struct Shard {
  int dim = 0;               // the dimension that is cut
  int64_t begin = 0;         // first index held
  int64_t count = 0;         // how many from there on; the whole dimension when not sharded
  int64_t second_begin = 0;  // the second range, behind the first; empty but for grouped keys
  int64_t second_count = 0;

  static Shard whole(const Shape& global) { return {0, 0, global.num_dims() > 0 ? global[0] : 1}; }
  /// Part `index` of `parts` equal parts along `dim`.
  static Shard part(const Shape& global, int dim, int index, int parts) {
    const int64_t count = exact_div(global[dim], static_cast<int64_t>(parts));
    return {dim, index * count, count};
  }
  /// Indices held.
  int64_t extent() const { return count + second_count; }
  std::array<ShardRun, 2> runs() const {
    return {{{begin, count, 0}, {second_begin, second_count, count}}};
  }
  bool is_whole(const Shape& global) const {
    return global.num_dims() == 0 || count == global[dim];
  }
  Shape local_shape(const Shape& global) const {
    Shape shape = global;
    if (global.num_dims() > 0) shape.set(dim, extent());
    return shape;
  }
  /// body(from, to, count): `count` elements from number `from` of the logical tensor on (row
  /// major) are those from number `to` of what is held on; in order.
  template <typename Body>
  void for_each_run(const Shape& global, Body body) const {
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < dim; ++d) outer *= global[d];
    for (int d = dim + 1; d < global.num_dims(); ++d) inner *= global[d];
    const int64_t cut = global.num_dims() > 0 ? global[dim] : 1;
    for (int64_t o = 0; o < outer; ++o) {
      for (const ShardRun& run : runs()) {
        if (run.count == 0) continue;
        body((o * cut + run.begin) * inner, (o * extent() + run.local) * inner, run.count * inner);
      }
    }
  }
  friend bool operator==(const Shard&, const Shard&) = default;
};

}  // namespace megalith
