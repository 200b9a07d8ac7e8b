// SPDX-License-Identifier: Apache-2.0
// Activations and their derivatives for vectors, once per instruction set: used by elementwise/gelu
// and by the matrix products' fused epilogues, which therefore agree to the bit. Include after
// foreach_target.h (elementary/dispatch.h).

#include "kernels/elementary/simd_math-inl.h"
#include "kernels/elementwise/activation.h"

#if defined(MEGA_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_ACTIVATION_INL_H_
#undef MEGA_KERNELS_ACTIVATION_INL_H_
#else
#define MEGA_KERNELS_ACTIVATION_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

/// activation(u)
template <Activation kActivation>
HWY_INLINE FloatVec activation_value(FloatVec u) {
  if constexpr (kActivation == Activation::gelu_tanh) {
    return elementary::gelu_tanh<SimdOps>(u);
  } else if constexpr (kActivation == Activation::gelu_erf) {
    return elementary::gelu_erf<SimdOps>(u);
  } else {
    return u;
  }
}

/// d activation(u) / du
template <Activation kActivation>
HWY_INLINE FloatVec activation_grad(FloatVec u) {
  if constexpr (kActivation == Activation::gelu_tanh) {
    return elementary::gelu_tanh_grad<SimdOps>(u);
  } else if constexpr (kActivation == Activation::gelu_erf) {
    return elementary::gelu_erf_grad<SimdOps>(u);
  } else {
    return hn::Set(FloatTag(), 1.0f);
  }
}

/// The same chosen at run time, for places outside of inner loops.
HWY_INLINE FloatVec activation_value(Activation activation, FloatVec u) {
  switch (activation) {
    case Activation::none:
      return u;
    case Activation::gelu_tanh:
      return activation_value<Activation::gelu_tanh>(u);
    case Activation::gelu_erf:
      return activation_value<Activation::gelu_erf>(u);
  }
  return u;
}
HWY_INLINE FloatVec activation_grad(Activation activation, FloatVec u) {
  switch (activation) {
    case Activation::none:
      return activation_grad<Activation::none>(u);
    case Activation::gelu_tanh:
      return activation_grad<Activation::gelu_tanh>(u);
    case Activation::gelu_erf:
      return activation_grad<Activation::gelu_erf>(u);
  }
  return u;
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_ACTIVATION_INL_H_
