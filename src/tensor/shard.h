// SPDX-License-Identifier: Apache-2.0
// Which part of a logical tensor a rank holds: a contiguous range along one dimension.
#pragma once

#include "tensor/shape.h"

namespace megalith {

struct Shard {
  int dim = 0;        // the dimension that is cut
  int64_t begin = 0;  // first index held
  int64_t count = 0;  // how many; the whole dimension when not sharded

  static Shard whole(const Shape& global) { return {0, 0, global.num_dims() > 0 ? global[0] : 1}; }
  /// Part `index` of `parts` equal parts along `dim`.
  static Shard part(const Shape& global, int dim, int index, int parts) {
    const int64_t count = exact_div(global[dim], static_cast<int64_t>(parts));
    return {dim, index * count, count};
  }
  bool is_whole(const Shape& global) const {
    return global.num_dims() == 0 || count == global[dim];
  }
  Shape local_shape(const Shape& global) const {
    Shape shape = global;
    if (global.num_dims() > 0) shape.set(dim, count);
    return shape;
  }
  friend bool operator==(const Shard&, const Shard&) = default;
};

}  // namespace megalith
