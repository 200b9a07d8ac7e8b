// SPDX-License-Identifier: Apache-2.0
// Activations and their derivatives for vectors, once per instruction set: used by
// elementwise/activate and by the matrix products' fused epilogues, which therefore agree to the
// bit. Include after foreach_target.h (elementary/dispatch.h).

#include <type_traits>

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
  } else if constexpr (kActivation == Activation::gelu_quick) {
    return elementary::gelu_quick<SimdOps>(u);
  } else if constexpr (kActivation == Activation::silu) {
    return elementary::silu<SimdOps>(u);
  } else if constexpr (kActivation == Activation::relu) {
    return SimdOps::max(hn::Zero(FloatTag()), u);  // u where it is NaN
  } else {
    return u;
  }
}

/// d activation(u) / du
template <Activation kActivation>
HWY_INLINE FloatVec activation_grad(FloatVec u) {
  const FloatVec one = hn::Set(FloatTag(), 1.0f);
  if constexpr (kActivation == Activation::gelu_tanh) {
    return elementary::gelu_tanh_grad<SimdOps>(u);
  } else if constexpr (kActivation == Activation::gelu_erf) {
    return elementary::gelu_erf_grad<SimdOps>(u);
  } else if constexpr (kActivation == Activation::gelu_quick) {
    return elementary::gelu_quick_grad<SimdOps>(u);
  } else if constexpr (kActivation == Activation::silu) {
    return elementary::silu_grad<SimdOps>(u);
  } else if constexpr (kActivation == Activation::relu) {
    return hn::IfThenZeroElse(hn::Le(u, hn::Zero(FloatTag())), one);
  } else {
    return one;
  }
}

/// f(std::integral_constant<Activation, activation>()): code for one activation chosen at run time.
template <class Function>
HWY_INLINE auto with_activation(Activation activation, const Function& f) {
  using enum Activation;
  switch (activation) {
    case none:
      break;
    case gelu_tanh:
      return f(std::integral_constant<Activation, gelu_tanh>());
    case gelu_erf:
      return f(std::integral_constant<Activation, gelu_erf>());
    case gelu_quick:
      return f(std::integral_constant<Activation, gelu_quick>());
    case silu:
      return f(std::integral_constant<Activation, silu>());
    case relu:
      return f(std::integral_constant<Activation, relu>());
  }
  return f(std::integral_constant<Activation, none>());
}

/// The functions of one vector, for places outside of inner loops.
HWY_INLINE FloatVec activation_value(Activation activation, FloatVec u) {
  return with_activation(activation, [u](auto kind) { return activation_value<kind>(u); });
}
HWY_INLINE FloatVec activation_grad(Activation activation, FloatVec u) {
  return with_activation(activation, [u](auto kind) { return activation_grad<kind>(u); });
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_ACTIVATION_INL_H_
