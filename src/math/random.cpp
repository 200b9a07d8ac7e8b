// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 and what is drawn from it. Source of the generator: Salmon, Moraes, Dror, Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Source of the normal distribution's
// inverse: Wichura, "Algorithm AS 241", Applied Statistics 37 (1988), routine PPND16 (relative
// accuracy about 1e-16). The permutation is a Feistel network, a bijection whatever its round
// function, and stays one on [0, n) by walking its cycles until they come back inside.
#define XXH_INLINE_ALL
#include "math/random.h"

#include <xxhash.h>

#include <bit>
#include <cmath>

#include "base/check.h"
#include "math/elementary_double.h"

namespace megalith {
namespace {

// The upper half of the counter keeps derived keys apart from each other and from drawn elements.
constexpr uint64_t kNameDomain = 0x6e616d65'00000000;
constexpr uint64_t kValueDomain = 0x76616c75'00000000;
constexpr uint64_t kPermuteDomain = 0x7065726d'00000000;
constexpr int kFeistelRounds = 8;

uint64_t low_half(const PhiloxBlock& block) { return block[0] | uint64_t{block[1]} << 32; }
uint64_t high_half(const PhiloxBlock& block) { return block[2] | uint64_t{block[3]} << 32; }

template <size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// Numerator and denominator of the three ranges, lowest power first (AS 241, PPND16).
constexpr double kCentreTop[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                 1.9715909503065514427e3, 1.3731693765509461125e4,
                                 4.5921953931549871457e4, 6.7265770927008700853e4,
                                 3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double kCentreBottom[] = {1.0,
                                    4.2313330701600911252e1,
                                    6.8718700749205790830e2,
                                    5.3941960214247511077e3,
                                    2.1213794301586595867e4,
                                    3.9307895800092710610e4,
                                    2.8729085735721942674e4,
                                    5.2264952788528545610e3};
constexpr double kMiddleTop[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                 5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kMiddleBottom[] = {1.0,
                                    2.05319162663775882187e0,
                                    1.67638483018380384940e0,
                                    6.89767334985100004550e-1,
                                    1.48103976427480074590e-1,
                                    1.51986665636164571966e-2,
                                    5.47593808499534494600e-4,
                                    1.05075007164441684324e-9};
constexpr double kTailTop[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                               1.78482653991729133580e0,  2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kTailBottom[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};

/// The x >= 0 with upper tail probability `tail`, 0 < tail <= 1/2.
double normal_from_tail(double tail) {
  const double q = 0.5 - tail;
  if (q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kCentreTop, r) / polynomial(kCentreBottom, r);
  }
  const double r = std::sqrt(-elementary::log(tail));
  if (r <= 5.0) return polynomial(kMiddleTop, r - 1.6) / polynomial(kMiddleBottom, r - 1.6);
  return polynomial(kTailTop, r - 5.0) / polynomial(kTailBottom, r - 5.0);
}

}  // namespace

PhiloxBlock philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  auto x0 = static_cast<uint32_t>(counter_low), x1 = static_cast<uint32_t>(counter_low >> 32);
  auto x2 = static_cast<uint32_t>(counter_high), x3 = static_cast<uint32_t>(counter_high >> 32);
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * x0;
    const uint64_t p1 = uint64_t{kMultiplier1} * x2;
    x0 = static_cast<uint32_t>(p1 >> 32) ^ x1 ^ k0;
    x2 = static_cast<uint32_t>(p0 >> 32) ^ x3 ^ k1;
    x1 = static_cast<uint32_t>(p1);
    x3 = static_cast<uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {x0, x1, x2, x3};
}

uint64_t random_key(uint64_t seed, std::string_view name) {
  return low_half(philox(seed, XXH3_64bits(name.data(), name.size()), kNameDomain));
}

uint64_t random_key(uint64_t key, uint64_t value) {
  return low_half(philox(key, value, kValueDomain));
}

double uniform_open(uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

double normal(uint64_t key, uint64_t element) {
  const PhiloxBlock block = philox(key, element >> 1, 0);
  const uint64_t bits = (element & 1) != 0 ? high_half(block) : low_half(block);
  // The top bit is the sign, the next 52 the tail probability (odd multiple of 2^-54, in (0, 1/2)):
  // together a 53-bit uniform whose two halves mirror each other exactly.
  const double tail = (static_cast<double>((bits << 1) >> 12) + 0.5) * 0x1p-53;
  const double x = normal_from_tail(tail);
  return (bits >> 63) != 0 ? -x : x;
}

uint64_t permute(uint64_t key, uint64_t n, uint64_t index) {
  MEGA_CHECK(n >= 1 && n < uint64_t{1} << 62 && index < n, "index {} of {}", index, n);
  if (n == 1) return 0;
  const int half_bits = (static_cast<int>(std::bit_width(n - 1)) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t x = index;
  do {
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < kFeistelRounds; ++round) {
      const uint64_t mixed = low_half(philox(key, right, kPermuteDomain + round)) & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    x = left << half_bits | right;
  } while (x >= n);  // at most 4 values of the domain per value below n
  return x;
}

}  // namespace megalith
