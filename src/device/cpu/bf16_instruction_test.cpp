// SPDX-License-Identifier: Apache-2.0
// The chain's specification against VDPBF16PS itself and against FMA instructions with FTZ and DAZ.
#include "device/cpu/bf16_instruction.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "device/target.h"

namespace megalith::device {
namespace {

constexpr uint64_t kVectors = 30000;

uint32_t bits_of(float x) { return std::isnan(x) ? 0x7fc00000u : std::bit_cast<uint32_t>(x); }

__attribute__((noinline, target("fma"))) void add_pairs_by_fma(PairsOf16& pairs) {
  for (int i = 0; i < 16; ++i) {
    const auto even = [](uint32_t word) { return std::bit_cast<float>(word << 16); };
    const auto odd = [](uint32_t word) { return std::bit_cast<float>(word & 0xffff0000u); };
    const float first = __builtin_fmaf(odd(pairs.a[i]), odd(pairs.b[i]), pairs.sum[i]);
    pairs.sum[i] = __builtin_fmaf(even(pairs.a[i]), even(pairs.b[i]), first);
  }
}

void expect_same(const PairsOf16& actual, const PairsOf16& expected, uint64_t number) {
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(bits_of(actual.sum[i]), bits_of(expected.sum[i]))
        << number << " " << i << std::hex << " a " << expected.a[i] << " b " << expected.b[i];
  }
}

TEST(Bf16Instruction, IsTheChain) {
  if (!cpu_has_bf16_instruction()) GTEST_SKIP() << "this CPU lacks AVX512-BF16";
  for (uint64_t number = 0; number < kVectors; ++number) {
    PairsOf16 actual = drawn_pairs(number), expected = actual;
    add_pairs_by_instruction(actual);
    add_pairs_by_chain(expected);
    ASSERT_NO_FATAL_FAILURE(expect_same(actual, expected, number));
  }
  EXPECT_TRUE(bf16_instruction_is_the_chain());
}

TEST(Bf16Instruction, IsUsedWhereItIsFaster) {
  EXPECT_TRUE(bf16_instruction_is_fast("AuthenticAMD"));
  EXPECT_FALSE(bf16_instruction_is_fast("GenuineIntel"));
  EXPECT_EQ(detect_isa() == Isa::avx512_bf16, bf16_instruction_refused().empty());
  if (!cpu_has_bf16_instruction()) {
    EXPECT_EQ(bf16_instruction_refused(), "this CPU has no AVX512-BF16");
  }
}

TEST(Bf16Instruction, FmaThatFlushesIsTheChain) {
  const unsigned before = _mm_getcsr();
  for (uint64_t number = 0; number < kVectors; ++number) {
    PairsOf16 actual = drawn_pairs(number), expected = actual;
    _mm_setcsr(before | 0x8040);
    add_pairs_by_fma(actual);
    _mm_setcsr(before);
    add_pairs_by_chain(expected);
    ASSERT_NO_FATAL_FAILURE(expect_same(actual, expected, number));
  }
}

/// The draws would be worth little without these.
TEST(Bf16Instruction, DrawsHaveEveryClass) {
  std::map<int, int> sums, operands;
  int flushed = 0;
  for (uint64_t number = 0; number < 200; ++number) {
    PairsOf16 pairs = drawn_pairs(number), ieee = pairs;
    for (int i = 0; i < 16; ++i) {
      ++sums[std::fpclassify(pairs.sum[i])];
      ++operands[std::fpclassify(std::bit_cast<float>(pairs.a[i] << 16))];
    }
    add_pairs_by_chain(pairs);
    add_pairs_by_fma(ieee);
    for (int i = 0; i < 16; ++i) flushed += bits_of(pairs.sum[i]) != bits_of(ieee.sum[i]);
  }
  for (const int of : {FP_NORMAL, FP_SUBNORMAL, FP_ZERO, FP_INFINITE}) {
    EXPECT_GT(sums[of], 10) << of;
    EXPECT_GT(operands[of], 10) << of;
  }
  EXPECT_GT(flushed, 100);
}

}  // namespace
}  // namespace megalith::device
