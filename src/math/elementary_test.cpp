// SPDX-License-Identifier: Apache-2.0
// The stated bounds against long double libm (64-bit mantissa, so its own error is below 2^-10 of
// our ulp), every kStride-th float of each function's range; the edges one by one; and digests of
// the result bits, which must be the same on every machine.
#include "math/elementary.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/file.h"

namespace megalith {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kStride = 997;
using FloatFunction = float (*)(float);

/// Distance in units of the last place that `want` has as a float (normal or subnormal).
double ulps(float got, long double want) {
  if (std::isnan(got) || std::isinf(got)) return 1e30;
  const int exponent = want == 0 ? -126 : std::max(std::ilogb(want), -126);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 23));
}

/// Largest error over the floats of both signs with low <= |x| <= high.
template <typename Got, typename Want>
double largest_error(float low, float high, Got got, Want want, bool both_signs = true) {
  double largest = 0;
  for (uint32_t b = std::bit_cast<uint32_t>(low); b <= std::bit_cast<uint32_t>(high);
       b += kStride) {
    const float x = std::bit_cast<float>(b);
    largest = std::max(largest, ulps(got(x), want(static_cast<long double>(x))));
    if (both_signs) largest = std::max(largest, ulps(got(-x), want(-static_cast<long double>(x))));
  }
  return largest;
}

/// The same in absolute terms.
template <typename Got, typename Want>
double largest_difference(float low, float high, Got got, Want want) {
  double largest = 0;
  for (uint32_t b = std::bit_cast<uint32_t>(low); b <= std::bit_cast<uint32_t>(high); b += kStride)
    for (const float sign : {1.0f, -1.0f}) {
      const float x = sign * std::bit_cast<float>(b);
      largest = std::max(
          largest, static_cast<double>(std::fabs(got(x) - want(static_cast<long double>(x)))));
    }
  return largest;
}

long double normal_distribution(long double x) { return 0.5L * erfcl(-x / sqrtl(2)); }
long double normal_density(long double x) { return expl(-x * x / 2) / sqrtl(2 * M_PIl); }
long double gelu_inner(long double x) {
  return 2 * sqrtl(2 / M_PIl) * (x + static_cast<long double>(0.044715) * x * x * x);
}

TEST(Elementary, ExpIsWithinOneUlp) {
  EXPECT_LT(largest_error(
                0x1p-30f, 87.3f, [](float x) { return elementary::exp(x); },
                [](long double x) { return expl(x); }),
            1.0);
}

TEST(Elementary, ExpFlushesBelowTheSmallestNormalAndOverflowsToInfinity) {
  // The neighbours of ln 2^-126 and of ln FLT_MAX, one by one.
  const float smallest = -0x1.5d589ep+6f, largest = 0x1.62e42ep+6f;
  EXPECT_GE(elementary::exp(smallest), std::numeric_limits<float>::min());
  EXPECT_LT(ulps(elementary::exp(smallest), expl(static_cast<long double>(smallest))), 1.0);
  EXPECT_EQ(elementary::exp(std::nextafter(smallest, -kInfinity)), 0.0f);
  EXPECT_LT(expl(std::nextafter(smallest, -kInfinity)), 0x1p-126L);
  EXPECT_LT(ulps(elementary::exp(largest), expl(static_cast<long double>(largest))), 1.0);
  EXPECT_EQ(elementary::exp(std::nextafter(largest, kInfinity)), kInfinity);
  EXPECT_GT(expl(std::nextafter(largest, kInfinity)), 0x1.fffffep127L);
  for (const float x : {-100.0f, -1e4f, -3e38f, -kInfinity}) EXPECT_EQ(elementary::exp(x), 0.0f);
  for (const float x : {89.0f, 1e4f, 3e38f, kInfinity}) EXPECT_EQ(elementary::exp(x), kInfinity);
  EXPECT_EQ(elementary::exp(0.0f), 1.0f);
  EXPECT_EQ(elementary::exp(-0.0f), 1.0f);
  EXPECT_EQ(elementary::exp(1e-40f), 1.0f);
}

TEST(Elementary, ExpNeverDecreases) {
  float before = 0;
  for (uint32_t b = std::bit_cast<uint32_t>(88.0f); b > 0x3c000000u; b -= kStride) {
    const float now = elementary::exp(-std::bit_cast<float>(b));
    ASSERT_GE(now, before) << std::bit_cast<float>(b);
    before = now;
  }
}

TEST(Elementary, EveryNanGivesNan) {
  // Payloads whose low bits would shift into the exponent of exp's result.
  for (const uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0x7fffffffu, 0xffc00000u, 0xffffffffu,
                              0x7f800001u, 0x7fc000ffu}) {
    const float x = std::bit_cast<float>(bits);
    for (const FloatFunction f : std::initializer_list<FloatFunction>{
             &elementary::exp, &elementary::log, &elementary::sigmoid, &elementary::tanh,
             &elementary::erf, &elementary::gelu_erf, &elementary::gelu_erf_grad,
             &elementary::gelu_tanh, &elementary::gelu_tanh_grad, &elementary::gelu_quick,
             &elementary::gelu_quick_grad, &elementary::silu, &elementary::silu_grad})
      EXPECT_TRUE(std::isnan(f(x))) << std::hex << bits;
  }
}

TEST(Elementary, ExpWithoutOverflowHasItsBits) {
  const auto short_exp = [](float x) {
    return elementary::exp_without_overflow<elementary::Float32Ops>(x);
  };
  const uint32_t largest = std::bit_cast<uint32_t>(0x1.62e42ep+6f);
  for (uint32_t b = 0; b <= 0xff800000u - kStride; b += kStride) {
    if (b > largest && b < 0x80000000u) b = 0x80000000u;
    const float x = std::bit_cast<float>(b);
    ASSERT_EQ(std::bit_cast<uint32_t>(short_exp(x)), std::bit_cast<uint32_t>(elementary::exp(x)))
        << x;
  }
  EXPECT_EQ(short_exp(-kInfinity), 0.0f);
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f810000u, 0xffff0000u})
    EXPECT_TRUE(std::isnan(short_exp(std::bit_cast<float>(bits)))) << std::hex << bits;
}

TEST(Elementary, LogIsWithinOneUlp) {
  const auto got = [](float x) { return elementary::log(x); };
  const auto want = [](long double x) { return logl(x); };
  EXPECT_LT(largest_error(0x1p-149f, 3.4e38f, got, want, false), 1.0);
  EXPECT_LT(largest_error(0.99f, 1.01f, got, want, false), 1.0);
  EXPECT_EQ(got(1.0f), 0.0f);
  EXPECT_EQ(got(0.0f), -kInfinity);
  EXPECT_EQ(got(-0.0f), -kInfinity);
  EXPECT_EQ(got(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(got(-1e-45f)));
  EXPECT_TRUE(std::isnan(got(-kInfinity)));
}

TEST(Elementary, TanhSigmoidAndErfAreWithinTheirBounds) {
  EXPECT_LT(largest_error(
                0x1p-60f, 20.0f, [](float x) { return elementary::tanh(x); },
                [](long double x) { return tanhl(x); }),
            1.5);
  EXPECT_LT(largest_error(
                0x1p-30f, 88.7f, [](float x) { return elementary::sigmoid(x); },
                [](long double x) { return 1 / (1 + expl(-x)); }),
            2.5);
  EXPECT_LT(largest_error(
                0x1p-60f, 10.0f, [](float x) { return elementary::erf(x); },
                [](long double x) { return erfl(x); }),
            1.5);
  for (const float sign : {1.0f, -1.0f})
    for (const float x : {50.0f, 1e30f, kInfinity}) {
      EXPECT_EQ(elementary::tanh(sign * x), sign);
      EXPECT_EQ(elementary::erf(sign * x), sign);
    }
  EXPECT_EQ(elementary::sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(elementary::sigmoid(-kInfinity), 0.0f);
  EXPECT_EQ(elementary::sigmoid(0.0f), 0.5f);
}

TEST(Elementary, TanhAndErfAreOdd) {
  EXPECT_TRUE(std::signbit(elementary::tanh(-0.0f)));
  EXPECT_TRUE(std::signbit(elementary::erf(-0.0f)));
  for (uint32_t b = 1; b < std::bit_cast<uint32_t>(1e5f); b += 65537) {
    const float x = std::bit_cast<float>(b);
    for (const FloatFunction f :
         std::initializer_list<FloatFunction>{&elementary::tanh, &elementary::erf})
      ASSERT_EQ(std::bit_cast<uint32_t>(f(-x)) ^ 0x80000000u, std::bit_cast<uint32_t>(f(x))) << x;
  }
}

TEST(Elementary, GeluErfIsWithinSixUlp) {
  EXPECT_LT(largest_error(
                0x1p-60f, 12.5f, [](float x) { return elementary::gelu_erf(x); },
                [](long double x) { return x * normal_distribution(x); }),
            6.0);
  EXPECT_LT(largest_difference(
                0x1p-30f, 20.0f, [](float x) { return elementary::gelu_erf_grad(x); },
                [](long double x) { return normal_distribution(x) + x * normal_density(x); }),
            0x1p-22);
}

TEST(Elementary, GeluTanhIsWithinItsBounds) {
  const auto got = [](float x) { return elementary::gelu_tanh(x); };
  const auto want = [](long double x) { return x / (1 + expl(-gelu_inner(x))); };
  EXPECT_LT(largest_error(0x1p-60f, 1e5f, got, want, false), 4.0);
  double largest = 0;
  for (float x = -0x1p-16f; x > -9.0f; x -= 0x1p-16f)
    largest = std::max(largest, ulps(got(x), want(x)) / static_cast<double>(4 - 3 * gelu_inner(x)));
  EXPECT_LT(largest, 1.0);
  EXPECT_LT(largest_difference(
                0x1p-30f, 30.0f, [](float x) { return elementary::gelu_tanh_grad(x); },
                [](long double x) {
                  const long double s = 1 / (1 + expl(-gelu_inner(x)));
                  const long double slope =
                      2 * sqrtl(2 / M_PIl) * (1 + 3 * static_cast<long double>(0.044715) * x * x);
                  return s + x * s * (1 - s) * slope;
                }),
            0x1p-21);
}

/// Largest |f'(x) - (s + u s (1 - s))|, s = sigmoid(u), u = slope x: the derivative of x s.
double largest_gate_error(FloatFunction got, long double slope) {
  return largest_difference(0x1p-30f, 100.0f, got, [=](long double x) {
    const long double s = 1 / (1 + expl(-slope * x));
    return s + slope * x * s * (1 - s);
  });
}

TEST(Elementary, SiluIsWithinItsBounds) {
  EXPECT_LT(largest_error(
                0x1p-60f, 87.3f, [](float x) { return elementary::silu(x); },
                [](long double x) { return x / (1 + expl(-x)); }),
            3.0);
  EXPECT_LT(largest_gate_error(&elementary::silu_grad, 1), 0x1p-22);
}

TEST(Elementary, GeluQuickIsWithinItsBounds) {
  constexpr long double kScale = 1.702L;
  const auto got = [](float x) { return elementary::gelu_quick(x); };
  const auto want = [](long double x) { return x / (1 + expl(-kScale * x)); };
  EXPECT_LT(largest_error(0x1p-60f, 1e5f, got, want, false), 4.0);
  double largest = 0;
  for (float x = -0x1p-13f; x > -51.2f; x -= 0x1p-13f)
    largest = std::max(largest, ulps(got(x), want(x)) / static_cast<double>(3 - 2 * kScale * x));
  EXPECT_LT(largest, 1.0);
  EXPECT_LT(largest_gate_error(&elementary::gelu_quick_grad, kScale), 0x1p-22);
}

TEST(Elementary, ActivationsAndTheirGradientsAreCalmFarOut) {
  for (const float x : {100.0f, 1e10f, 3e38f, kInfinity}) {
    for (const FloatFunction f :
         std::initializer_list<FloatFunction>{&elementary::gelu_tanh, &elementary::gelu_erf,
                                              &elementary::gelu_quick, &elementary::silu}) {
      EXPECT_EQ(f(x), x);
      if (x < kInfinity) {
        EXPECT_EQ(f(-x), 0.0f);
      }
    }
    for (const FloatFunction f : std::initializer_list<FloatFunction>{
             &elementary::gelu_tanh_grad, &elementary::gelu_erf_grad, &elementary::gelu_quick_grad,
             &elementary::silu_grad}) {
      EXPECT_EQ(f(x), 1.0f);
      EXPECT_EQ(f(-x), 0.0f);
    }
  }
}

/// Digest of the result bits over every 65,537th float whose result is no NaN.
std::string digest(FloatFunction f) {
  std::vector<uint32_t> bits;
  for (uint64_t b = 0; b < uint64_t{1} << 32; b += 65537) {
    const float y = f(std::bit_cast<float>(static_cast<uint32_t>(b)));
    if (!std::isnan(y)) bits.push_back(std::bit_cast<uint32_t>(y));
  }
  return sha256(std::as_bytes(std::span(bits))).substr(0, 16);
}

TEST(Elementary, BitsAreTheSameOnEveryMachine) {
  EXPECT_EQ(digest(&elementary::exp), "291d2d0c949ab32b");
  EXPECT_EQ(digest(&elementary::log), "a79ce20ab0925af2");
  EXPECT_EQ(digest(&elementary::sigmoid), "5eee2138a5c61545");
  EXPECT_EQ(digest(&elementary::tanh), "fc3aefef77b29373");
  EXPECT_EQ(digest(&elementary::erf), "366836f085cd9d6b");
  EXPECT_EQ(digest(&elementary::gelu_erf), "2f1e7c9521443def");
  EXPECT_EQ(digest(&elementary::gelu_erf_grad), "31232e1c53705582");
  EXPECT_EQ(digest(&elementary::gelu_tanh), "40eb6f1ba2a7eb07");
  EXPECT_EQ(digest(&elementary::gelu_tanh_grad), "8fd2be91677bcb2b");
  EXPECT_EQ(digest(&elementary::gelu_quick), "198946820d4a0ebf");
  EXPECT_EQ(digest(&elementary::gelu_quick_grad), "670fcbf7f236ade8");
  EXPECT_EQ(digest(&elementary::silu), "7639ef222b38ad70");
  EXPECT_EQ(digest(&elementary::silu_grad), "675e657b864d8948");
}

}  // namespace
}  // namespace megalith
