// SPDX-License-Identifier: Apache-2.0
// Rows of a view, 16 columns at a time, for operations with many operands. Code is written once
// over row types: TypedRow for the usual storage types, AnyRow (a predictable branch per load) for
// every other mix, instead of one copy per mix. `kFull` says that all 16 columns exist. Include
// after foreach_target.h (elementary/dispatch.h).

#include <type_traits>

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

/// Row `row` of a view of T; absent if the view is.
template <class T>
struct TypedRow {
  const T* data = nullptr;

  TypedRow() = default;
  /// A row at an address; the type must be T.
  TypedRow(const std::byte* at, DType) : data(reinterpret_cast<const T*>(at)) {}
  TypedRow(const ConstView& view, int64_t row) : data(view.absent() ? nullptr : view.row<T>(row)) {}
  explicit operator bool() const { return data != nullptr; }
};
template <class T>
struct TypedOutputRow {
  T* data = nullptr;

  TypedOutputRow() = default;
  TypedOutputRow(std::byte* at, DType) : data(reinterpret_cast<T*>(at)) {}
  TypedOutputRow(const View& view, int64_t row)
      : data(view.absent() ? nullptr : view.row<T>(row)) {}
  explicit operator bool() const { return data != nullptr; }
};

/// The same for a view of f32, bf16 or f16.
struct AnyRow {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;

  AnyRow() = default;
  AnyRow(const std::byte* at, DType type) : data(at), dtype(type) {}
  AnyRow(const ConstView& view, int64_t row)
      : data(view.absent() ? nullptr
                           : view.data() + row * view.row_stride() * bytes_of(view.dtype())),
        dtype(view.dtype()) {}
  explicit operator bool() const { return data != nullptr; }
};
struct AnyOutputRow {
  std::byte* data = nullptr;
  DType dtype = DType::f32;

  AnyOutputRow() = default;
  AnyOutputRow(std::byte* at, DType type) : data(at), dtype(type) {}
  AnyOutputRow(const View& view, int64_t row)
      : data(view.data() + row * view.row_stride() * bytes_of(view.dtype())), dtype(view.dtype()) {}
};

/// Elements [i, i + 16), those at n and later as +0.
template <bool kFull, class T>
HWY_INLINE Vec16 load_row(const TypedRow<T>& row, int64_t i, int64_t n) {
  if constexpr (kFull) {
    return load16(row.data + i);
  } else {
    return load16_some(row.data + i, n - i);
  }
}
template <bool kFull>
HWY_INLINE Vec16 load_row(const AnyRow& row, int64_t i, int64_t n) {
  const auto load_as = [&]<class T>(const T* typed) HWY_ATTR {
    if constexpr (kFull) {
      return load16(typed + i);
    } else {
      return load16_some(typed + i, n - i);
    }
  };
  if (row.dtype == DType::bf16) return load_as(reinterpret_cast<const bf16_t*>(row.data));
  if (row.dtype == DType::f16) return load_as(reinterpret_cast<const f16_t*>(row.data));
  return load_as(reinterpret_cast<const float*>(row.data));
}

/// Elements [i, i + 16), those before n only.
template <bool kFull, class T>
HWY_INLINE void store_row(const Vec16& v, T* row, int64_t i, int64_t n) {
  if constexpr (kFull) {
    store16(v, row + i);
  } else {
    store16_some(v, row + i, n - i);
  }
}
template <bool kFull, class T>
HWY_INLINE void store_row(const Vec16& v, const TypedOutputRow<T>& row, int64_t i, int64_t n) {
  store_row<kFull>(v, row.data, i, n);
}
template <bool kFull>
HWY_INLINE void store_row(const Vec16& v, const AnyOutputRow& row, int64_t i, int64_t n) {
  if (row.dtype == DType::bf16) {
    store_row<kFull>(v, reinterpret_cast<bf16_t*>(row.data), i, n);
  } else if (row.dtype == DType::f16) {
    store_row<kFull>(v, reinterpret_cast<f16_t*>(row.data), i, n);
  } else {
    store_row<kFull>(v, reinterpret_cast<float*>(row.data), i, n);
  }
}

/// Calls step(i, full) for i = begin, begin + 16, ... below end; `full`, a std::bool_constant, is
/// false in a step that reaches beyond the end.
template <class Step>
HWY_INLINE void for_columns(int64_t begin, int64_t end, const Step& step) {
  int64_t i = begin;
  for (; i + 16 <= end; i += 16) step(i, std::true_type());
  if (i < end) step(i, std::false_type());
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_ANY_ROW_INL_H_
