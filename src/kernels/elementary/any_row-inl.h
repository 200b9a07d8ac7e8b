// SPDX-License-Identifier: Apache-2.0
// A row of f32 or bf16 whose type is known at run time, for operations with many operands: one copy
// of the code instead of one per mix of types. The branch per 16 elements is always predicted and
// does not show beside the memory traffic. Include after foreach_target.h (elementary/dispatch.h).

#include "kernels/elementary/simd_math-inl.h"
#include "tensor/view.h"

#if defined(MEGA_KERNELS_ANY_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_ANY_ROW_INL_H_
#undef MEGA_KERNELS_ANY_ROW_INL_H_
#else
#define MEGA_KERNELS_ANY_ROW_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

/// Row `row` of a view (rows of a 1-D view: only 0), or nothing when it is absent.
struct AnyRow {
  const std::byte* data = nullptr;
  bool is_bf16 = false;

  AnyRow() = default;
  AnyRow(const ConstView& view, int64_t row)
      : data(view.absent() ? nullptr
                           : view.data() + row * view.row_stride() * bytes_of(view.dtype())),
        is_bf16(view.dtype() == DType::bf16) {}
  explicit operator bool() const { return data != nullptr; }
};

/// Elements [i, i + 16), those at n and later as +0.
HWY_INLINE Vec16 load16(const AnyRow& row, int64_t i, int64_t n) {
  const auto* narrow = reinterpret_cast<const bf16_t*>(row.data) + i;
  const auto* wide = reinterpret_cast<const float*>(row.data) + i;
  if (HWY_LIKELY(i + 16 <= n)) return row.is_bf16 ? load16(narrow) : load16(wide);
  return row.is_bf16 ? load16_some(narrow, n - i) : load16_some(wide, n - i);
}

/// Where to store: the same for output.
struct AnyOutputRow {
  std::byte* data = nullptr;
  bool is_bf16 = false;

  AnyOutputRow(const View& view, int64_t row)
      : data(view.data() + row * view.row_stride() * bytes_of(view.dtype())),
        is_bf16(view.dtype() == DType::bf16) {}
};

HWY_INLINE void store16(const Vec16& v, const AnyOutputRow& row, int64_t i, int64_t n) {
  auto* narrow = reinterpret_cast<bf16_t*>(row.data) + i;
  auto* wide = reinterpret_cast<float*>(row.data) + i;
  if (HWY_LIKELY(i + 16 <= n)) {
    if (row.is_bf16) {
      store16(v, narrow);
    } else {
      store16(v, wide);
    }
  } else if (row.is_bf16) {
    store16_some(v, narrow, n - i);
  } else {
    store16_some(v, wide, n - i);
  }
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_ANY_ROW_INL_H_
