// SPDX-License-Identifier: Apache-2.0
// What the entry of every operation without scratch does after checking its arguments: record the
// cost, choose an implementation, and run it unless the device only counts. Also the checks and
// partitions that row-wise operations share.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

#include "kernels/exec.h"

namespace megalith::kernels {

template <typename Arguments>
void run_chosen(Exec& exec, std::string_view name, const device::Work& work,
                std::span<const Implementation<Arguments>> list, const Arguments& arguments) {
  const device::KernelScope scope(exec.device, name, work);
  const Implementation<Arguments>& chosen = choose(list, exec, arguments);
  if (!exec.device.is_trace()) chosen.run(exec, arguments);
}

inline bool is_narrow(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

/// Why the vector code refuses: it takes only f32 and bf16. Absent views are allowed.
inline std::string_view refuse_wide(std::initializer_list<ConstView> views) {
  for (const ConstView& view : views) {
    if (!view.absent() && !is_narrow(view.dtype())) return "takes f32 and bf16 only";
  }
  return {};
}
/// f32 and bf16 in any mix, or f64 throughout.
inline void check_storage(std::initializer_list<ConstView> views) {
  int narrow = 0, wide = 0;
  for (const ConstView& view : views) {
    if (view.absent()) continue;
    const bool is_wide = view.dtype() == DType::f64;
    MEGA_CHECK(is_wide || is_narrow(view.dtype()), "storage {}", view.dtype());
    ++(is_wide ? wide : narrow);
  }
  MEGA_CHECK(narrow == 0 || wide == 0, "f64 mixed with narrower storage");
}
inline void check_same_shape(const ConstView& a, const ConstView& b) {
  MEGA_CHECK(a.shape() == b.shape(), "{} against {}", a.shape(), b.shape());
}
/// A 1-D view of n contiguous elements of this type.
inline void check_vector(const ConstView& view, DType dtype, int64_t n) {
  MEGA_CHECK_EQ(view.dtype(), dtype);
  MEGA_CHECK_EQ(view.num_elements(), n);
  MEGA_CHECK(view.is_contiguous());
}

/// Any view as [rows, columns]: dimension 0 against all later ones; 1-D is one row.
template <typename Byte>
BasicView<Byte> as_matrix(const BasicView<Byte>& view) {
  if (view.shape().num_dims() < 2) {
    MEGA_CHECK(view.row_stride() == 1 || view.num_elements() <= 1, "a strided vector");
    const int64_t n = view.num_elements();
    return {view.data(), view.dtype(), Shape{1, n}, n};
  }
  int64_t columns = 1;
  for (int dim = 1; dim < view.shape().num_dims(); ++dim) columns *= view.size(dim);
  return {view.data(), view.dtype(), Shape{view.size(0), columns}, view.row_stride()};
}
/// One row that holds everything, if the view is contiguous.
template <typename Byte>
BasicView<Byte> as_one_row(const BasicView<Byte>& view) {
  const int64_t n = view.num_elements();
  return {view.data(), view.dtype(), Shape{1, n}, n};
}

/// Calls body(row, begin, end) for pieces that cover [rows, columns], statically over the device's
/// threads in grains of some thousand elements: whole rows, or parts of a single row.
template <typename Body>
void for_pieces(Exec& exec, int64_t rows, int64_t columns, const Body& body) {
  constexpr int64_t kGrain = 8192;
  if (rows == 0 || columns == 0) return;
  if (rows == 1) {
    exec.device.pool().for_range(columns, kGrain,
                                 [&](Range range, int) { body(0, range.begin, range.end); });
    return;
  }
  exec.device.pool().for_range(rows, std::max<int64_t>(1, kGrain / columns), [&](Range range, int) {
    for (int64_t row = range.begin; row < range.end; ++row) body(row, 0, columns);
  });
}

}  // namespace megalith::kernels
