// SPDX-License-Identifier: Apache-2.0
// What norms of heads check and count alike.
#pragma once

#include <algorithm>

#include "kernels/attention/heads_view.h"
#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {

inline bool any_wide(std::initializer_list<DType> dtypes) {
  return !std::all_of(dtypes.begin(), dtypes.end(), is_narrow);
}

/// One storage rule with the views of other operations: a head stands for all.
inline ConstView first_head(const ConstHeadsView& x) {
  return {x.data, x.dtype, Shape{x.head_size}};
}

inline void check_same_heads(const ConstHeadsView& a, const ConstHeadsView& b) {
  MEGA_CHECK(a.num_rows == b.num_rows && a.num_heads == b.num_heads && a.head_size == b.head_size,
             "[{}, {}, {}] against [{}, {}, {}]", a.num_rows, a.num_heads, a.head_size, b.num_rows,
             b.num_heads, b.head_size);
}
/// Where two views begin at the same address, one may be written in place of the other.
inline void check_same_places(const ConstHeadsView& a, const ConstHeadsView& b) {
  if (a.data != b.data) return;
  const bool same = a.dtype == b.dtype && a.row_stride == b.row_stride &&
                    a.group_stride == b.group_stride && a.heads_per_group == b.heads_per_group &&
                    a.head_stride == b.head_stride;
  MEGA_CHECK(same, "one is laid over the other in another way");
}

inline int64_t elements(const ConstHeadsView& x) { return x.num_rows * x.num_heads * x.head_size; }
inline int64_t bytes(const ConstHeadsView& x) { return elements(x) * bytes_of(x.dtype); }
inline int64_t bytes(const ConstView& view) { return view.absent() ? 0 : view.bytes(); }

}  // namespace megalith::kernels
