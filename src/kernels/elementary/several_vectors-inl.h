// SPDX-License-Identifier: Apache-2.0
// The operations of math/elementary_ops.h for several vectors side by side. A polynomial is one
// chain of dependent operations, longer than what a processor looks ahead: several in turn keep it
// busy. Included once per instruction set.
#include "kernels/elementary/simd_math-inl.h"

#if defined(MEGA_KERNELS_SEVERAL_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_SEVERAL_VECTORS_INL_H_
#undef MEGA_KERNELS_SEVERAL_VECTORS_INL_H_
#else
#define MEGA_KERNELS_SEVERAL_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

template <class Vector, int kCount>
struct Several {
  Vector of[kCount];
};

/// What exp_without_overflow<SeveralOps<kCount>> needs.
template <int kCount>
struct SeveralOps {
  using V = Several<FloatVec, kCount>;
  using I = Several<WordVec, kCount>;
  using M = Several<hn::Mask<FloatTag>, kCount>;

  template <class To, class Operation, class... From>
  static HWY_INLINE To each(const Operation& operation, const From&... from) {
    To to;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) to.of[i] = operation(from.of[i]...);
    return to;
  }
  static HWY_INLINE V set(float x) {
    V all;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) all.of[i] = SimdOps::set(x);
    return all;
  }
  static HWY_INLINE V sub(const V& a, const V& b) { return each<V>(SimdOps::sub, a, b); }
  static HWY_INLINE V fma(const V& a, const V& b, const V& c) {
    return each<V>(SimdOps::fma, a, b, c);
  }
  static HWY_INLINE V fnma(const V& a, const V& b, const V& c) {
    return each<V>(SimdOps::fnma, a, b, c);
  }
  static HWY_INLINE M less(const V& a, const V& b) { return each<M>(SimdOps::less, a, b); }
  static HWY_INLINE V select(const M& m, const V& yes, const V& no) {
    return each<V>(SimdOps::select, m, yes, no);
  }
  static HWY_INLINE I bits(const V& a) { return each<I>(SimdOps::bits, a); }
  static HWY_INLINE V from_bits(const I& a) { return each<V>(SimdOps::from_bits, a); }
  static HWY_INLINE I add_bits(const I& a, const I& b) { return each<I>(SimdOps::add_bits, a, b); }
  template <int kBits>
  static HWY_INLINE I shift_left(const I& a) {
    return each<I>(SimdOps::shift_left<kBits>, a);
  }
};

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
