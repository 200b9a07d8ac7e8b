// SPDX-License-Identifier: Apache-2.0
// The vector forms of math/elementary.h, tensor/dtype.h and math/random.h against the scalar ones,
// bit by bit, on both instruction sets.
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "device/target.h"
#include "math/elementary.h"
#include "math/elementary_sin_cos.h"
#include "math/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementary/simd_math_test.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/sin_cos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// Function number `which` of kFunctions over n (a multiple of 16) numbers.
void apply(int which, const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kFloatLanes) {
    const FloatVec v = load(x + i);
    FloatVec result = v;
    switch (which) {
      case 0:
        result = elementary::exp<SimdOps>(v);
        break;
      case 1:
        result = elementary::log<SimdOps>(v);
        break;
      case 2:
        result = elementary::sigmoid<SimdOps>(v);
        break;
      case 3:
        result = elementary::tanh<SimdOps>(v);
        break;
      case 4:
        result = elementary::erf<SimdOps>(v);
        break;
      case 5:
        result = elementary::gelu_erf<SimdOps>(v);
        break;
      case 6:
        result = elementary::gelu_erf_grad<SimdOps>(v);
        break;
      case 7:
        result = elementary::gelu_tanh<SimdOps>(v);
        break;
      case 8:
        result = elementary::gelu_tanh_grad<SimdOps>(v);
        break;
      case 9:
        result = elementary::gelu_quick<SimdOps>(v);
        break;
      case 10:
        result = elementary::gelu_quick_grad<SimdOps>(v);
        break;
      case 11:
        result = elementary::silu<SimdOps>(v);
        break;
      case 12:
        result = elementary::silu_grad<SimdOps>(v);
        break;
      case 13:
        result = sin_cos(v).sin;
        break;
      case 14:
        result = sin_cos(v).cos;
        break;
      default:
        break;
    }
    store(result, y + i);
  }
}

void to_bf16_and_back(const float* x, bf16_t* y, float* z, int64_t n) {
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) {
    store(load(x + i), y + i);
    store(load(y + i), z + i);
  }
  store_some(load_some(x + i, n - i), y + i, n - i);
  store_some(load_some(y + i, n - i), z + i, n - i);
}

/// The row sum of the house: lanes i % 16, then the tree.
float row_sum(const float* x, int64_t n) {
  Vec16 sum = set16(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) sum = add16(sum, load16(x + i));
  if (i < n) sum = add16(sum, load16_some(x + i, n - i));
  return tree_sum16(sum);
}

/// 64 words from counter (high, second << 32 | first).
void words(uint64_t key, uint32_t first, uint32_t second, uint64_t high, uint32_t* out) {
  constexpr int kLanes = static_cast<int>(kFloatLanes);
  for (int i = 0; i < 64; i += 2 * kLanes) {  // one group at a time, then the first two at once
    WordVec a, b;
    philox_words(key, first + static_cast<uint32_t>(i / 4), second, high, a, b);
    hn::StoreU(a, WordTag(), out + i);
    hn::StoreU(b, WordTag(), out + i + kLanes);
  }
  if (key % 2 == 0) {
    WordVec both[4];
    philox_words<2>(key, first, second, high, both);
    for (int k = 0; k < 4; ++k) hn::StoreU(both[k], WordTag(), out + k * kLanes);
  }
}

/// Bit i is set where word i of 16 is at least the threshold.
uint32_t compare(const uint32_t* word, uint32_t threshold) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; i += static_cast<int>(kFloatLanes)) {
    HWY_ALIGN float kept[kFloatLanes];
    const auto mask = at_least(hn::LoadU(WordTag(), word + i), threshold);
    store(hn::IfThenElseZero(mask, hn::Set(FloatTag(), 1.0f)), kept);
    for (int lane = 0; lane < kFloatLanes; ++lane) {
      if (kept[lane] != 0) bits |= 1u << (i + lane);
    }
  }
  return bits;
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

namespace megalith::kernels {
namespace {

struct Function {
  const char* name;
  float (*scalar)(float);
};
constexpr std::array<Function, 15> kFunctions = {
    {{"exp", megalith::elementary::exp},
     {"log", megalith::elementary::log},
     {"sigmoid", megalith::elementary::sigmoid},
     {"tanh", megalith::elementary::tanh},
     {"erf", megalith::elementary::erf},
     {"gelu_erf", megalith::elementary::gelu_erf},
     {"gelu_erf_grad", megalith::elementary::gelu_erf_grad},
     {"gelu_tanh", megalith::elementary::gelu_tanh},
     {"gelu_tanh_grad", megalith::elementary::gelu_tanh_grad},
     {"gelu_quick", megalith::elementary::gelu_quick},
     {"gelu_quick_grad", megalith::elementary::gelu_quick_grad},
     {"silu", megalith::elementary::silu},
     {"silu_grad", megalith::elementary::silu_grad},
     {"sin", megalith::elementary::sin},
     {"cos", megalith::elementary::cos}}};

bool has_avx512() { return device::detect_isa() >= device::Isa::avx512; }

/// Every 4001st bit pattern, and all the places where something changes.
std::vector<float> inputs() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4001) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const uint32_t centre :
       {0x00000000u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x3f800000u, 0xbf800000u, 0x00800000u,
        0x7fc00000u, 0x42b17218u, 0xc2aeac50u, 0x3f3504f3u}) {
    for (int offset = -40; offset <= 40; ++offset) {
      x.push_back(std::bit_cast<float>(centre + static_cast<uint32_t>(offset)));
    }
  }
  while (x.size() % 16 != 0) x.push_back(0.5f);
  return x;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

TEST(SimdMath, FunctionsEqualTheScalarOnesBitByBit) {
  const std::vector<float> x = inputs();
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> avx2(x.size()), avx512(x.size());
  for (size_t f = 0; f < kFunctions.size(); ++f) {
    N_AVX2::apply(static_cast<int>(f), x.data(), avx2.data(), n);
    if (has_avx512()) {
      N_AVX3::apply(static_cast<int>(f), x.data(), avx512.data(), n);
    } else {
      avx512 = avx2;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = kFunctions[f].scalar(x[i]);
      ASSERT_TRUE(same(avx2[i], expected) && same(avx512[i], expected))
          << kFunctions[f].name << "(" << x[i] << "): " << avx2[i] << ", " << avx512[i] << ", "
          << expected;
    }
  }
}

TEST(SimdMath, Bf16RoundsAsTheScalarConversion) {
  std::vector<float> x = inputs();
  x.resize(x.size() - 11);  // a tail
  const auto n = static_cast<int64_t>(x.size());
  std::vector<bf16_t> y(x.size());
  std::vector<float> z(x.size());
  for (const bool wide : {false, true}) {
    if (wide && !has_avx512()) continue;
    (wide ? N_AVX3::to_bf16_and_back : N_AVX2::to_bf16_and_back)(x.data(), y.data(), z.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i].bits, to_bf16(x[i]).bits) << x[i];
      ASSERT_TRUE(same(z[i], to_f32(y[i]))) << x[i];
    }
  }
}

TEST(SimdMath, RowSumsRunInSixteenLanes) {
  for (const int64_t n : {0, 1, 15, 16, 17, 100, 1000}) {
    std::vector<float> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(normal(7, static_cast<uint64_t>(i)));
    float lane[16] = {};
    for (int64_t i = 0; i < n; ++i) lane[i % 16] += x[static_cast<size_t>(i)];
    for (int width = 8; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lane[l] = lane[l] + lane[l + width];
    }
    EXPECT_EQ(N_AVX2::row_sum(x.data(), n), lane[0]) << n;
    if (has_avx512()) {
      EXPECT_EQ(N_AVX3::row_sum(x.data(), n), lane[0]) << n;
    }
  }
}

TEST(SimdMath, PhiloxWordsEqualTheScalarOnes) {
  std::array<uint32_t, 64> avx2{}, avx512{};
  for (uint64_t trial = 0; trial < 5000; ++trial) {
    const PhiloxBlock seed = philox(trial, 1, 2);
    const uint64_t key = seed[0] | uint64_t{seed[1]} << 32,
                   high = philox(trial, 3, 4)[0] | trial << 33;
    const uint32_t first = seed[2] >> 1, second = seed[3];
    N_AVX2::words(key, first, second, high, avx2.data());
    if (has_avx512()) {
      N_AVX3::words(key, first, second, high, avx512.data());
    } else {
      avx512 = avx2;
    }
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t expected = philox(key, uint64_t{second} << 32 | (first + i / 4), high)[i % 4];
      ASSERT_EQ(avx2[i], expected) << "word " << i;
      ASSERT_EQ(avx512[i], expected) << "word " << i;
    }
  }
}

TEST(SimdMath, WordsCompareUnsigned) {
  const std::array<uint32_t, 16> words = {
      0,          1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe, 0x40000000,
      0xc0000000, 5, 6,          7,          0x7ffffffe, 0x80000002, 2,          3};
  for (const uint32_t threshold : words) {
    uint32_t expected = 0;
    for (size_t i = 0; i < 16; ++i) expected |= (words[i] >= threshold ? 1u : 0u) << i;
    EXPECT_EQ(N_AVX2::compare(words.data(), threshold), expected);
    if (has_avx512()) {
      EXPECT_EQ(N_AVX3::compare(words.data(), threshold), expected);
    }
  }
}

}  // namespace
}  // namespace megalith::kernels
#endif  // HWY_ONCE
