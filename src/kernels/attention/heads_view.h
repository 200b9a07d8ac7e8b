// SPDX-License-Identifier: Apache-2.0
// Where the heads of a matrix of tokens lie: element (t, h, d) is at
//   t * row_stride + (h / heads_per_group) * group_stride + (h % heads_per_group) * head_stride + d
// One description serves a plain [T, N, D] tensor and the output of the fused query-key-value
// projection, whose columns go group by group (one group per key/value head):
//   [ N/K query heads of group g, key head g, value head g ] for g = 0 .. K-1, each D wide.
#pragma once

#include "tensor/view.h"

namespace megalith::kernels {

template <typename Byte>
struct BasicHeadsView {
  Byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t num_rows = 0;  // T
  int64_t num_heads = 0;
  int64_t head_size = 0;
  int64_t row_stride = 0;
  int64_t group_stride = 0;
  int64_t heads_per_group = 1;
  int64_t head_stride = 0;

  operator BasicHeadsView<const std::byte>() const {  // NOLINT(google-explicit-constructor)
    return {data,       dtype,        num_rows,        num_heads,  head_size,
            row_stride, group_stride, heads_per_group, head_stride};
  }
  bool absent() const { return data == nullptr; }
  /// Elements from `data` to the start of head h of row t.
  int64_t offset(int64_t t, int64_t h) const {
    return t * row_stride + (h / heads_per_group) * group_stride +
           (h % heads_per_group) * head_stride;
  }
  Byte* at(int64_t t, int64_t h) const { return data + offset(t, h) * bytes_of(dtype); }
  /// Rows [begin, begin + count).
  BasicHeadsView rows(int64_t begin, int64_t count) const {
    MEGA_CHECK(begin >= 0 && count >= 0 && begin + count <= num_rows, "rows {} + {} of {}", begin,
               count, num_rows);
    BasicHeadsView part = *this;
    part.data += begin * row_stride * bytes_of(dtype);
    part.num_rows = count;
    return part;
  }
};
using HeadsView = BasicHeadsView<std::byte>;
using ConstHeadsView = BasicHeadsView<const std::byte>;

/// The heads of a plain matrix x_TC, C = num_heads * head_size (a view [T, N, D] is taken as well).
template <typename Byte>
BasicHeadsView<Byte> heads(const BasicView<Byte>& x_TC, int64_t num_heads, int64_t head_size) {
  const int64_t columns = x_TC.shape().num_dims() == 3 ? x_TC.size(1) * x_TC.size(2) : x_TC.size(1);
  MEGA_CHECK_EQ(columns, num_heads * head_size);
  return {x_TC.data(), x_TC.dtype(),      x_TC.size(0), num_heads,
          head_size,   x_TC.row_stride(), head_size,    1,
          head_size};
}

/// One kind of head in the fused projection's output qkv_TC, C = (N + 2 K) * D.
template <typename Byte>
BasicHeadsView<Byte> fused_heads(const BasicView<Byte>& qkv_TC, int64_t num_groups,
                                 int64_t group_columns, int64_t first_column,
                                 int64_t heads_per_group, int64_t head_size) {
  MEGA_CHECK_EQ(qkv_TC.size(1), num_groups * group_columns);
  return {qkv_TC.data() + first_column * bytes_of(qkv_TC.dtype()),
          qkv_TC.dtype(),
          qkv_TC.size(0),
          num_groups * heads_per_group,
          head_size,
          qkv_TC.row_stride(),
          group_columns,
          heads_per_group,
          head_size};
}
/// The num_heads (N) query heads of qkv_TC; num_kv_heads (K) divides N.
template <typename Byte>
BasicHeadsView<Byte> queries(const BasicView<Byte>& qkv_TC, int64_t num_heads, int64_t num_kv_heads,
                             int64_t head_size) {
  const int64_t q_per_kv = exact_div(num_heads, num_kv_heads);
  return fused_heads(qkv_TC, num_kv_heads, (q_per_kv + 2) * head_size, 0, q_per_kv, head_size);
}
/// The K key heads of qkv_TC.
template <typename Byte>
BasicHeadsView<Byte> keys(const BasicView<Byte>& qkv_TC, int64_t num_heads, int64_t num_kv_heads,
                          int64_t head_size) {
  const int64_t q_per_kv = exact_div(num_heads, num_kv_heads);
  return fused_heads(qkv_TC, num_kv_heads, (q_per_kv + 2) * head_size, q_per_kv * head_size, 1,
                     head_size);
}
/// The K value heads of qkv_TC.
template <typename Byte>
BasicHeadsView<Byte> values(const BasicView<Byte>& qkv_TC, int64_t num_heads, int64_t num_kv_heads,
                            int64_t head_size) {
  const int64_t q_per_kv = exact_div(num_heads, num_kv_heads);
  return fused_heads(qkv_TC, num_kv_heads, (q_per_kv + 2) * head_size, (q_per_kv + 1) * head_size,
                     1, head_size);
}

}  // namespace megalith::kernels
