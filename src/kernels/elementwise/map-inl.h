// SPDX-License-Identifier: Apache-2.0
// One vector function over a piece of a row of one, two or three operands of any narrow storage.
// Include after foreach_target.h (elementary/dispatch.h).

#include "kernels/elementary/simd_math-inl.h"
#include "tensor/view.h"

#if defined(MEGA_KERNELS_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_MAP_INL_H_
#undef MEGA_KERNELS_MAP_INL_H_
#else
#define MEGA_KERNELS_MAP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

/// f(T{}) with the storage type of a view of f32, bf16 or f16.
template <class Function>
HWY_INLINE void with_storage(DType dtype, const Function& f) {
  if (dtype == DType::f32) {
    f(float{});
  } else if (dtype == DType::bf16) {
    f(bf16_t{});
  } else {
    f(f16_t{});
  }
}

/// y[i] = f(x[i]) for n elements, and of two operands.
template <class Function, class X, class Y>
HWY_INLINE void map_vectors(const Function& f, const X* x, Y* y, int64_t n) {
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) store(f(load(x + i)), y + i);
  if (i < n) store_some(f(load_some(x + i, n - i)), y + i, n - i);
}
template <class Function, class A, class B, class Y>
HWY_INLINE void map_vectors(const Function& f, const A* a, const B* b, Y* y, int64_t n) {
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) store(f(load(a + i), load(b + i)), y + i);
  if (i < n) store_some(f(load_some(a + i, n - i), load_some(b + i, n - i)), y + i, n - i);
}

/// The same over columns [begin, end) of a row of matrices, whatever their storage.
template <class Function>
HWY_INLINE void map_piece(const Function& f, const ConstView& x, const View& y, int64_t row,
                          int64_t begin, int64_t end) {
  with_storage(x.dtype(), [&](auto x_type) {
    with_storage(y.dtype(), [&](auto y_type) {
      map_vectors(f, x.row<decltype(x_type)>(row) + begin, y.row<decltype(y_type)>(row) + begin,
                  end - begin);
    });
  });
}
template <class Function>
HWY_INLINE void map_piece(const Function& f, const ConstView& a, const ConstView& b, const View& y,
                          int64_t row, int64_t begin, int64_t end) {
  with_storage(a.dtype(), [&](auto a_type) {
    with_storage(b.dtype(), [&](auto b_type) {
      with_storage(y.dtype(), [&](auto y_type) {
        map_vectors(f, a.row<decltype(a_type)>(row) + begin, b.row<decltype(b_type)>(row) + begin,
                    y.row<decltype(y_type)>(row) + begin, end - begin);
      });
    });
  });
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_MAP_INL_H_
