// SPDX-License-Identifier: Apache-2.0
// The functions of math/elementary.h, to be included inside a namespace, once in each. It has no
// include guard and no namespace of its own on purpose: when one source file is compiled for
// several instruction sets, a template gets the instruction set of the place where it is defined,
// not of the place where it is instantiated. So the vector code of each instruction set includes
// its own copy inside its own region and namespace; scalar code includes elementary.h. The includer
// includes <limits> and math/elementary_ops.h first. Everything is inlined, so that constants are
// loaded once, outside of loops.

namespace detail {

/// x + kRounder rounds |x| < 2^22 to an integer, whose two's complement is in the low bits of the
/// sum.
inline constexpr float kRounder = 0x1.8p23f;
inline constexpr uint32_t kSignBit = 0x80000000u;

template <class Ops>
[[gnu::always_inline]] inline typename Ops::V absolute(typename Ops::V x) {
  return Ops::from_bits(Ops::and_bits(Ops::bits(x), Ops::set_bits(~kSignBit)));
}

/// |x| with the sign of s; x >= 0.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V with_sign_of(typename Ops::V x, typename Ops::V s) {
  return Ops::from_bits(
      Ops::or_bits(Ops::bits(x), Ops::and_bits(Ops::bits(s), Ops::set_bits(kSignBit))));
}

/// Horner's rule, lowest power first: c0 + x (c1 + x (c2 + ...)).
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V polynomial(typename Ops::V, float c0) {
  return Ops::set(c0);
}
template <class Ops, class... Floats>
[[gnu::always_inline]] inline typename Ops::V polynomial(typename Ops::V x, float c0, float c1,
                                                         Floats... rest) {
  return Ops::fma(polynomial<Ops>(x, c1, rest...), x, Ops::set(c0));
}

}  // namespace detail

/// exp for x <= 88.7228, and for NaNs that come from arithmetic on a few leading bits (bf16): the
/// same bits in fewer operations.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V exp_without_overflow(typename Ops::V x) {
  using V = typename Ops::V;
  // x = n ln2 + r, |r| <= ln2/2; the first difference is exact (see elementary_double.cpp).
  const V rounded = Ops::fma(x, Ops::set(0x1.715476p+0f), Ops::set(detail::kRounder));
  const V n = Ops::sub(rounded, Ops::set(detail::kRounder));
  V r = Ops::fnma(n, Ops::set(0x1.62e430p-1f), x);
  r = Ops::fnma(n, Ops::set(-0x1.05c610p-29f), r);
  // Relative error of the polynomial 2^-28.
  const V power = detail::polynomial<Ops>(r, 1.0f, 1.0f, 0x1.fffffcp-2f, 0x1.555492p-3f,
                                          0x1.5558f2p-5f, 0x1.1239e4p-7f, 0x1.6a243ap-10f);
  // Shifted into the exponent field, the low bits of `rounded` multiply by 2^n.
  const V scaled = Ops::from_bits(
      Ops::add_bits(Ops::bits(power), Ops::template shift_left<23>(Ops::bits(rounded))));
  return Ops::select(Ops::less(x, Ops::set(-0x1.5d589ep+6f)), Ops::set(0.0f), scaled);
}

/// e^x within 1 ulp. 0 where the result would be below the smallest normal number (x < -87.3366,
/// -inf included); inf for x > 88.7228.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V exp(typename Ops::V x) {
  // x * inf is inf on overflow and NaN for NaN.
  return Ops::select(Ops::less_equal(x, Ops::set(0x1.62e42ep+6f)), exp_without_overflow<Ops>(x),
                     Ops::mul(x, Ops::set(std::numeric_limits<float>::infinity())));
}

/// Natural logarithm within 1 ulp. log(0) = -inf, log(x < 0) = NaN, log(inf) = inf.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V log(typename Ops::V x) {
  using V = typename Ops::V;
  using I = typename Ops::I;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Subnormal numbers are scaled into the normal range first.
  const typename Ops::M tiny = Ops::less(x, Ops::set(0x1p-126f));
  const V scaled = Ops::select(tiny, Ops::mul(x, Ops::set(0x1p23f)), x);
  // scaled = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const I shift = Ops::template shift_right_arithmetic<23>(
      Ops::sub_bits(Ops::bits(scaled), Ops::set_bits(0x3f3504f3u)));
  const V mantissa =
      Ops::from_bits(Ops::sub_bits(Ops::bits(scaled), Ops::template shift_left<23>(shift)));
  const V f = Ops::sub(mantissa, Ops::set(1.0f));
  const V e = Ops::sub(Ops::from_int(shift), Ops::select(tiny, Ops::set(23.0f), Ops::set(0.0f)));
  // log(1 + f) = f - f^2/2 + f^3 P(f), relative error 2^-30.
  const V p = detail::polynomial<Ops>(f, 0x1.555548p-2f, -0x1.000006p-2f, 0x1.99a4b6p-3f,
                                      -0x1.555c4ep-3f, 0x1.233768p-3f, -0x1.fc220ap-4f,
                                      0x1.e6f06cp-4f, -0x1.de3c12p-4f, 0x1.1457a0p-4f);
  const V square = Ops::mul(f, f);
  V tail = Ops::mul(Ops::mul(square, f), p);
  tail = Ops::fma(e, Ops::set(-0x1.05c610p-29f), tail);
  tail = Ops::fnma(square, Ops::set(0.5f), tail);
  const V value = Ops::fma(e, Ops::set(0x1.62e430p-1f), Ops::add(f, tail));
  // 0 gives -inf, negative numbers NaN (inf - inf); inf and NaN give themselves.
  const V at_most_zero =
      Ops::select(Ops::less(x, Ops::set(0.0f)), Ops::set(std::numeric_limits<float>::quiet_NaN()),
                  Ops::set(-kInfinity));
  const V finite = Ops::select(Ops::less(x, Ops::set(kInfinity)), value, x);
  return Ops::select(Ops::less_equal(x, Ops::set(0.0f)), at_most_zero, finite);
}

/// 1 / (1 + e^-x) within 2.5 ulp (subnormal results, x < -87.3, within 2^-149; 0 for x < -88.7).
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V sigmoid(typename Ops::V x) {
  const auto one = Ops::set(1.0f);
  return Ops::div(one, Ops::add(one, exp<Ops>(Ops::sub(Ops::set(0.0f), x))));
}

/// Hyperbolic tangent within 1.5 ulp, sign of zero kept.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V tanh(typename Ops::V x) {
  using V = typename Ops::V;
  const V size = detail::absolute<Ops>(x);
  // Small: x + x z P(z), z = x^2, relative error 2^-27.8. Large: 1 - 2 / (e^2|x| + 1).
  const V z = Ops::mul(x, x);
  const V p = detail::polynomial<Ops>(z, -0x1.555534p-2f, 0x1.110768p-3f, -0x1.b84448p-5f,
                                      0x1.5256d6p-6f, -0x1.76ac12p-8f);
  const V small = Ops::fma(Ops::mul(z, p), size, size);
  const V power = exp<Ops>(Ops::add(size, size));
  const V large =
      Ops::sub(Ops::set(1.0f), Ops::div(Ops::set(2.0f), Ops::add(power, Ops::set(1.0f))));
  const V result = Ops::select(Ops::less(size, Ops::set(0.625f)), small, large);
  return detail::with_sign_of<Ops>(result, x);
}

namespace detail {

/// The tail of the standard normal distribution beyond t >= 0, and its density, by one exponential:
///   tail(t)    = density(t) sqrt(2 pi) M(t)
///   density(t) = e^(-t^2/2) / sqrt(2 pi)
///   M(t)       = d Q((t - 4) d),   d = 1 / (t + 4)
/// Relative error of Q: 2^-27 for 0 <= t <= 13.2; beyond, the tail is below the smallest normal
/// number.
template <class Ops>
struct NormalTail {
  typename Ops::V tail, bell;  // bell = e^(-t^2/2)

  [[gnu::always_inline]] explicit NormalTail(typename Ops::V t) {
    using V = typename Ops::V;
    // What rounding took from t^2 matters after exp: e^-(s+l)/2 = e^(-s/2) (1 - l/2). Beyond 14
    // everything is 0, and the minimum (which passes NaN on in this order) keeps infinities out.
    const V bounded = Ops::min(Ops::set(14.0f), t);
    const V square = Ops::mul(bounded, bounded);
    const V lost = Ops::fma(bounded, bounded, Ops::sub(Ops::set(0.0f), square));
    const V power = exp<Ops>(Ops::mul(square, Ops::set(-0.5f)));
    bell = Ops::fnma(Ops::mul(lost, Ops::set(0.5f)), power, power);
    const V d = Ops::div(Ops::set(1.0f), Ops::add(bounded, Ops::set(4.0f)));
    const V w = Ops::mul(Ops::sub(bounded, Ops::set(4.0f)), d);
    const V q = polynomial<Ops>(w, 0x1.82b4bcp-1f, -0x1.373e3ap-1f, 0x1.8c6d9cp-2f, -0x1.7dffa8p-3f,
                                0x1.eed584p-5f, -0x1.ed7428p-8f, -0x1.cd3d4ep-9f, 0x1.9d28bep-10f,
                                0x1.97e54cp-13f, -0x1.065952p-13f);
    tail = Ops::mul(Ops::mul(bell, d), q);
  }
};

}  // namespace detail

/// Error function within 1.5 ulp, sign of zero kept.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V erf(typename Ops::V x) {
  using V = typename Ops::V;
  const V size = detail::absolute<Ops>(x);
  // |x| < 1: x + x P(x^2), relative error 2^-29.6. Else 1 - 2 tail(|x| sqrt 2).
  const V z = Ops::mul(x, x);
  const V p =
      detail::polynomial<Ops>(z, 0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2cf8p-4f, -0x1.b7f90ep-6f,
                              0x1.5405b2p-8f, -0x1.a3f700p-11f, 0x1.496a30p-14f);
  const detail::NormalTail<Ops> normal(Ops::mul(size, Ops::set(0x1.6a09e6p+0f)));
  const V large = Ops::fnma(Ops::set(2.0f), normal.tail, Ops::set(1.0f));
  const V small = Ops::fma(p, x, x);
  return Ops::select(Ops::less(size, Ops::set(1.0f)), small, detail::with_sign_of<Ops>(large, x));
}

#include "math/elementary_activations-inl.h"
