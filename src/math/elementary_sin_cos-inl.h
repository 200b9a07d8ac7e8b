// SPDX-License-Identifier: Apache-2.0
// The sine and cosine of math/elementary_sin_cos.h, to be included inside a namespace, once in
// each, like elementary_functions-inl.h and for the same reason.

namespace detail {

/// Horner's rule for five coefficients, lowest power first.
template <class Ops>
[[gnu::always_inline]] inline typename Ops::V polynomial5(typename Ops::V z, const double (&c)[5]) {
  typename Ops::V sum = Ops::set(c[4]);
  for (int i = 3; i >= 0; --i) sum = Ops::fma(sum, z, Ops::set(c[i]));
  return sum;
}

// Taylor series in z = r^2 for |r| <= pi/4, relative errors 2^-36 and 2^-40:
//   sin r = r + r z S(z)
//   cos r = 1 - z/2 + z^2 C(z)
inline constexpr double kSineTerms[5] = {-1. / 6, 1. / 120, -1. / 5040, 1. / 362880,
                                         -1. / 39916800};
inline constexpr double kCosineTerms[5] = {1. / 24, -1. / 720, 1. / 40320, -1. / 3628800,
                                           1. / 479001600};

}  // namespace detail

/// Both for a float widened to double, |x| <= 2^31; relative errors below 2^-35.
template <class Ops>
[[gnu::always_inline]] inline void sin_cos(typename Ops::V x, typename Ops::V& sine,
                                           typename Ops::V& cosine) {
  using V = typename Ops::V;
  using I = typename Ops::I;
  constexpr double kRounder = 0x1.8p52;  // rounds to an integer, as in elementary_double.cpp
  const V rounded = Ops::fma(x, Ops::set(0x1.45f306dc9c883p-1), Ops::set(kRounder));
  const V n = Ops::sub(rounded, Ops::set(kRounder));
  // x = n pi/2 + r. The first difference is exact: a multiple of 2^-52 below 1. The third part of
  // pi/2 would add n 2^-109 at most, and no float of that range is nearer than 2^-28 to a multiple
  // of pi/2.
  V r = Ops::fnma(n, Ops::set(0x1.921fb54442d18p+0), x);
  r = Ops::fnma(n, Ops::set(0x1.1a62633145c07p-54), r);
  const V z = Ops::mul(r, r);
  const V s = detail::polynomial5<Ops>(z, detail::kSineTerms);
  const V c = detail::polynomial5<Ops>(z, detail::kCosineTerms);
  const V sin_r = Ops::fma(Ops::mul(z, s), r, r);
  const V cos_r = Ops::fma(Ops::mul(z, z), c, Ops::fnma(Ops::set(0.5), z, Ops::set(1.0)));
  // Bits 0 and 1 of n: which quarter of the circle.
  const I quarter = Ops::bits(rounded);
  const auto swap = Ops::test_bit(quarter, Ops::set_bits(1));
  const auto sign = [](I of) [[gnu::always_inline]] {
    return Ops::template shift_left<62>(Ops::and_bits(of, Ops::set_bits(2)));
  };
  const I next = Ops::add_bits(quarter, Ops::set_bits(1));
  sine = Ops::from_bits(Ops::xor_bits(Ops::bits(Ops::select(swap, cos_r, sin_r)), sign(quarter)));
  cosine = Ops::from_bits(Ops::xor_bits(Ops::bits(Ops::select(swap, sin_r, cos_r)), sign(next)));
}
