// SPDX-License-Identifier: Apache-2.0
// Taylor series after range reduction: with 53 bits wanted and small ranges they cost only a term
// or two more than a fitted polynomial, and their coefficients need no table.
//   exp:      x = n ln2 + r, |r| <= ln2/2, e^x = 2^n sum r^k/k!
//   log:      x = 2^e (1+f), s = f/(2+f), log(1+f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R),
//             R = sum_{k>=1} 2 s^2k/(2k+1)       (the form keeps the large part, f, exact)
//   sin, cos: x = n pi/2 + r + t, |r| <= pi/4, t the part of r that one double cannot hold
#include "math/elementary_double.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace megalith::elementary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// x + 1.5 * 2^52 rounds x to an integer (to nearest, ties to even) whose two's complement is in
/// the low bits of the sum.
constexpr double kRounder = 0x1.8p52;

// ln 2 in two parts; the first has 32 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// coefficient[k] of a series, lowest power first, at x.
template <size_t N>
double horner(const std::array<double, N>& coefficient, double x) {
  double sum = coefficient[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = std::fma(sum, x, coefficient[i]);
  return sum;
}

/// 1/first!, sign/(first+step)!, ...
template <size_t N>
constexpr std::array<double, N> inverse_factorials(int first, int step, double sign) {
  std::array<double, N> out{};
  double factorial = 1;
  for (int k = 2; k <= first; ++k) factorial *= k;
  double signed_one = 1;
  for (size_t i = 0; i < N; ++i) {
    out[i] = signed_one / factorial;
    for (int k = 1; k <= step; ++k) factorial *= first + static_cast<int>(i) * step + k;
    signed_one *= sign;
  }
  return out;
}

constexpr auto kExpTerms = inverse_factorials<13>(1, 1, 1);  // 1 + r/2! + ... + r^12/13!
constexpr auto kSinTerms = inverse_factorials<8>(3, 2, -1);  // 1/3! - z/5! + ... - z^7/17!
constexpr auto kCosTerms = inverse_factorials<7>(4, 2, -1);  // 1/4! - z/6! + ... + z^6/16!
constexpr std::array<double, 11> kAtanhTerms = {
    2. / 3, 2. / 5, 2. / 7, 2. / 9, 2. / 11, 2. / 13, 2. / 15, 2. / 17, 2. / 19, 2. / 21, 2. / 23};

/// n pi/2 + high + low = x.
struct Reduced {
  uint64_t quadrant;
  double high, low;
};

Reduced reduce(double x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  // pi/2 in three doubles. |n| < 2^20 makes x - n kPart0 exact under fma.
  constexpr double kPart0 = 0x1.921fb54442d18p+0;
  constexpr double kPart1 = 0x1.1a62633145c07p-54;
  constexpr double kPart2 = -0x1.f1976b7ed8fbcp-110;
  const double rounded = std::fma(x, kTwoOverPi, kRounder);
  const double n = rounded - kRounder;
  const double first = std::fma(-n, kPart0, x);
  const double high = std::fma(-n, kPart1, first);
  const double low = std::fma(-n, kPart2, std::fma(-n, kPart1, first - high));
  return {std::bit_cast<uint64_t>(rounded) & 3, high, low};
}

double sin_near_zero(double r, double t) {
  const double z = r * r;
  // sin(r + t) = r - r^3 S(z) + t cos r
  const double correction = std::fma(-(z * r), horner(kSinTerms, z), t * std::fma(-0.5, z, 1.0));
  return r + correction;
}

double cos_near_zero(double r, double t) {
  const double z = r * r;
  const double half = 0.5 * z;
  const double one_minus = 1.0 - half;
  // cos(r + t) = 1 - z/2 + z^2 C(z) - r t, with what 1 - z/2 lost in rounding put back
  const double lost = (1.0 - one_minus) - half;
  return one_minus + (lost + std::fma(z * z, horner(kCosTerms, z), -r * t));
}

double sin_of(const Reduced& x, uint64_t quadrant) {
  const double value =
      (quadrant & 1) != 0 ? cos_near_zero(x.high, x.low) : sin_near_zero(x.high, x.low);
  return (quadrant & 2) != 0 ? -value : value;
}

/// Within one file a loop of them becomes one stream of instructions.
inline double exp_of(double x) {
  constexpr double kSmallest = -0x1.6232bdd7abcd2p+9;  // ln 2^-1022, rounded up
  constexpr double kLargest = 0x1.62e42fefa39efp+9;    // ln of the largest double, rounded down
  if (!(x <= kLargest)) return x + kInfinity;          // NaN stays NaN
  if (x < kSmallest) return 0;
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  const double rounded = std::fma(x, kLog2E, kRounder);
  const double n = rounded - kRounder;
  const double high = std::fma(-n, kLn2High, x);  // exact
  const double r = std::fma(-n, kLn2Low, high);
  const double lost = std::fma(-n, kLn2Low, high - r);
  const double power = 1.0 + std::fma(r, horner(kExpTerms, r), lost);
  // The low bits of `rounded` are n: shifted into the exponent field they multiply by 2^n.
  return std::bit_cast<double>(std::bit_cast<uint64_t>(power) +
                               (std::bit_cast<uint64_t>(rounded) << 52));
}

}  // namespace

double log(double x) {
  if (!(x > 0)) return x == 0 ? -kInfinity : kNan;
  if (x == kInfinity) return x;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  // The mantissa in [sqrt(1/2), sqrt(2)): the logarithm near 1 comes from f alone.
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const auto bits = std::bit_cast<uint64_t>(x);
  const auto shift = static_cast<int64_t>(bits - kSqrtHalf) >> 52;
  const double f = std::bit_cast<double>(bits - (static_cast<uint64_t>(shift) << 52)) - 1.0;
  const double e = static_cast<double>(shift + exponent);
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half_square = 0.5 * f * f;
  const double tail = std::fma(s, std::fma(z, horner(kAtanhTerms, z), half_square), e * kLn2Low);
  return std::fma(e, kLn2High, -((half_square - tail) - f));
}

double exp(double x) { return exp_of(x); }

double sum_exp(std::span<const float> x, double shift) {
  double sum = 0;
  for (const float each : x) sum += exp_of(static_cast<double>(each) - shift);
  return sum;
}

double sin(double x) {
  const Reduced reduced = reduce(x);
  return sin_of(reduced, reduced.quadrant);
}

double cos(double x) {
  const Reduced reduced = reduce(x);
  return sin_of(reduced, reduced.quadrant + 1);
}

}  // namespace megalith::elementary
