// SPDX-License-Identifier: Apache-2.0
// math/elementary_sin_cos.h for vectors of floats, each half widened to doubles. Include after
// foreach_target.h (elementary/dispatch.h).

#include "kernels/elementary/simd_math-inl.h"

#if defined(MEGA_KERNELS_SIN_COS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_SIN_COS_INL_H_
#undef MEGA_KERNELS_SIN_COS_INL_H_
#else
#define MEGA_KERNELS_SIN_COS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

namespace elementary {
#include "math/elementary_sin_cos-inl.h"
}  // namespace elementary

/// Float64Ops for half as many doubles as a vector has floats.
struct SimdDoubleOps {
  using Tag = hn::Repartition<double, FloatTag>;
  using Bits = hn::RebindToUnsigned<Tag>;
  using V = hn::Vec<Tag>;
  using I = hn::Vec<Bits>;
  using M = hn::Mask<Tag>;
  static constexpr Tag kF{};
  static constexpr Bits kI{};

  static HWY_INLINE V set(double x) { return hn::Set(kF, x); }
  static HWY_INLINE I set_bits(uint64_t x) { return hn::Set(kI, x); }
  static HWY_INLINE V sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V mul(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V fma(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V fnma(V a, V b, V c) { return hn::NegMulAdd(a, b, c); }
  static HWY_INLINE M test_bit(I a, I mask) { return hn::RebindMask(kF, hn::TestBit(a, mask)); }
  static HWY_INLINE V select(M m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
  static HWY_INLINE I bits(V a) { return hn::BitCast(kI, a); }
  static HWY_INLINE V from_bits(I a) { return hn::BitCast(kF, a); }
  static HWY_INLINE I add_bits(I a, I b) { return hn::Add(a, b); }
  static HWY_INLINE I and_bits(I a, I b) { return hn::And(a, b); }
  static HWY_INLINE I xor_bits(I a, I b) { return hn::Xor(a, b); }
  template <int kBits>
  static HWY_INLINE I shift_left(I a) {
    return hn::ShiftLeft<kBits>(a);
  }
};

struct VecSinCos {
  FloatVec sin, cos;
};

HWY_INLINE VecSinCos sin_cos(FloatVec x) {
  using Tag = SimdDoubleOps::Tag;
  const hn::Rebind<float, Tag> half;
  using V = SimdDoubleOps::V;
  V low_sin, low_cos, high_sin, high_cos;
  elementary::sin_cos<SimdDoubleOps>(hn::PromoteTo(Tag(), hn::LowerHalf(half, x)), low_sin,
                                     low_cos);
  elementary::sin_cos<SimdDoubleOps>(hn::PromoteTo(Tag(), hn::UpperHalf(half, x)), high_sin,
                                     high_cos);
  const auto join = [&](V low, V high) {
    return hn::Combine(FloatTag(), hn::DemoteTo(half, high), hn::DemoteTo(half, low));
  };
  return {join(low_sin, high_sin), join(low_cos, high_cos)};
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_SIN_COS_INL_H_
