// SPDX-License-Identifier: Apache-2.0
// The activation functions of math/elementary.h and their derivatives: the end of
// elementary_functions-inl.h, which says why there is neither a guard nor a namespace here.

/// x Phi(x) = 0.5 x (1 + erf(x / sqrt 2)), the exact GELU (Hendrycks & Gimpel 2016), within 6 ulp
/// while |result| is normal; 0 to the left of -13.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_erf(typename Ops::V x) {
  using V = typename Ops::V;
  const V size = detail::absolute<Ops>(x);
  const detail::NormalTail<Ops> normal(size);
  // x (1 - tail) or x tail, as one difference; the bound keeps inf * 0 out.
  return Ops::fnma(Ops::min(Ops::set(14.0f), size), normal.tail, Ops::max(x, Ops::set(0.0f)));
}

/// Its derivative Phi(x) + x phi(x); absolute error below 2^-22.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_erf_grad(typename Ops::V x) {
  using V = typename Ops::V;
  const detail::NormalTail<Ops> normal(detail::absolute<Ops>(x));
  const V distribution =
      Ops::select(Ops::less(x, Ops::set(0.0f)), normal.tail, Ops::sub(Ops::set(1.0f), normal.tail));
  // phi(x) = 0 beyond 14; the bounds keep inf * 0 out.
  const V bounded = Ops::max(Ops::set(-14.0f), Ops::min(Ops::set(14.0f), x));
  return Ops::fma(Ops::mul(bounded, Ops::set(0x1.988454p-2f)), normal.bell, distribution);
}

namespace detail {

/// s = sigmoid(x) and the power it is made of; value and derivative share them.
template <class Ops>
struct Gate {
  typename Ops::V power, s;

  [[gnu::always_inline]] explicit Gate(typename Ops::V x)
      : power(exp<Ops>(Ops::sub(Ops::set(0.0f), x))),
        s(Ops::div(Ops::set(1.0f), Ops::add(Ops::set(1.0f), power))) {}
};

inline constexpr float kQuickScale = 1.702f;

}  // namespace detail

/// x sigmoid(x), SiLU (Elfwing et al. 2017), within 3 ulp for x > -87.3, where the sigmoid becomes
/// subnormal; 0 to the left of -88.7. NaN at -inf (as the formula).
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V silu(typename Ops::V x) {
  return Ops::mul(x, detail::Gate<Ops>(x).s);
}

/// Its derivative s + x s (1 - s) with s = sigmoid(x); absolute error below 2^-22.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V silu_grad(typename Ops::V x) {
  using V = typename Ops::V;
  const detail::Gate<Ops> gate(x);
  // 1 - s = e^-x s without cancellation. s is 0 where the power is infinite, and s (1 - s) beyond
  // 88: the bounds (which pass NaN on) keep inf * 0 out.
  const V power = Ops::min(Ops::set(std::numeric_limits<float>::max()), gate.power);
  const V bounded = Ops::max(Ops::set(-100.0f), Ops::min(Ops::set(100.0f), x));
  return Ops::fma(bounded, Ops::mul(gate.s, Ops::mul(power, gate.s)), gate.s);
}

/// x sigmoid(1.702 x), the cheap approximation of GELU (Hendrycks & Gimpel 2016). Within 3 + 2 |u|
/// ulp where u = 1.702 x is negative (its rounding shows in e^u) and above -87.3, else 4 ulp. NaN
/// at -inf.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_quick(typename Ops::V x) {
  return Ops::mul(x, detail::Gate<Ops>(Ops::mul(Ops::set(detail::kQuickScale), x)).s);
}

/// Its derivative s + u s (1 - s) with u = 1.702 x, s = sigmoid(u): that of SiLU at u; absolute
/// error below 2^-22.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_quick_grad(typename Ops::V x) {
  return silu_grad<Ops>(Ops::mul(Ops::set(detail::kQuickScale), x));
}

namespace detail {

inline constexpr float kTwiceSqrtTwoOverPi = 0x1.988454p+0f;
inline constexpr float kGeluCubic = 0.044715f;

/// 2 sqrt(2/pi) (x + 0.044715 x^3), so that gelu_tanh(x) = x sigmoid(this).
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_tanh_inner(typename Ops::V x) {
  const auto factor = Ops::fma(Ops::mul(x, x), Ops::set(kTwiceSqrtTwoOverPi * kGeluCubic),
                               Ops::set(kTwiceSqrtTwoOverPi));
  return Ops::mul(x, factor);
}

}  // namespace detail

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's GELU, as x sigmoid(2 ...): no
/// cancellation in the left tail. Within 4 + 3 |u| ulp where u, the argument of the sigmoid, is
/// negative (its rounding shows in e^u), else 4 ulp. NaN at -inf (as the formula).
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_tanh(typename Ops::V x) {
  const auto power = exp<Ops>(Ops::sub(Ops::set(0.0f), detail::gelu_tanh_inner<Ops>(x)));
  return Ops::div(x, Ops::add(Ops::set(1.0f), power));
}

/// Its derivative s + x s (1 - s) u' with s = sigmoid(u), u' = 2 sqrt(2/pi) (1 + 3 x 0.044715 x^2);
/// absolute error below 2^-21.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_tanh_grad(typename Ops::V x) {
  using V = typename Ops::V;
  const V one = Ops::set(1.0f);
  const V u = detail::gelu_tanh_inner<Ops>(x);
  // a = e^-|u| <= 1 gives both s and s (1 - s) = a / (1 + a)^2 without cancellation.
  const V a = exp<Ops>(Ops::sub(Ops::set(0.0f), detail::absolute<Ops>(u)));
  const V right = Ops::div(one, Ops::add(one, a));
  const V left = Ops::mul(a, right);
  const V s = Ops::select(Ops::less(u, Ops::set(0.0f)), left, right);
  // s (1 - s) is 0 beyond 16; the bounds keep inf * 0 out.
  const V bounded = Ops::max(Ops::set(-16.0f), Ops::min(Ops::set(16.0f), x));
  const V slope = Ops::fma(Ops::mul(bounded, bounded),
                           Ops::set(3 * detail::kTwiceSqrtTwoOverPi * detail::kGeluCubic),
                           Ops::set(detail::kTwiceSqrtTwoOverPi));
  return Ops::fma(Ops::mul(bounded, slope), Ops::mul(left, right), s);
}
