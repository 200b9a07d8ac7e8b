// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/bf16_instruction.h"

#include <cpuid.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/log.h"
#include "math/bf16_chain.h"
#include "math/random.h"

namespace megalith::device {
namespace {

float even_of(uint32_t word) { return std::bit_cast<float>(word << 16); }
float odd_of(uint32_t word) { return std::bit_cast<float>(word & 0xffff0000u); }

/// A bf16 whose exponent lies in the class that `choice` names.
uint32_t drawn_bf16(uint32_t bits, uint32_t choice) {
  const uint32_t sign_and_fraction = bits & 0x807fu;
  const uint32_t spread = (bits >> 16) % 24;
  switch (choice % 8) {
    case 0:
      return sign_and_fraction;  // a denormal or a zero
    case 1:
      return sign_and_fraction & 0x8000u;
    case 2:
      return sign_and_fraction | (1 + spread) << 7;  // tiny: products vanish
    case 3:
    case 4:
      return sign_and_fraction | (52 + spread) << 7;  // products near the least normal number
    case 5:
      return (choice / 8) % 16 == 0 ? (sign_and_fraction & 0x8000u) | 0x7f80u
                                    : sign_and_fraction | (178 + spread) << 7;
    default:
      return sign_and_fraction | (115 + spread) << 7;
  }
}

bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) ||
         std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
}

std::string cpu_maker() {
  unsigned a = 0, text[3] = {};
  __get_cpuid(0, &a, &text[0], &text[2], &text[1]);
  return {reinterpret_cast<const char*>(text), sizeof(text)};
}

bool compare() {
  if (!cpu_has_bf16_instruction()) return false;
  constexpr uint64_t kVectors = 128;  // 2048 sums of two products
  for (uint64_t number = 0; number < kVectors; ++number) {
    PairsOf16 by_instruction = drawn_pairs(number), by_chain = by_instruction;
    add_pairs_by_instruction(by_instruction);
    add_pairs_by_chain(by_chain);
    for (int i = 0; i < 16; ++i) {
      if (!same(by_instruction.sum[i], by_chain.sum[i])) return false;
    }
  }
  return true;
}

}  // namespace

bool cpu_has_bf16_instruction() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl")) return false;
  // Leaf 7, subleaf 1, EAX bit 5; the operating system's consent is covered by the AVX-512 check.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && ((a >> 5) & 1u) != 0;
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))) void
add_pairs_by_instruction(PairsOf16& pairs) {
  const auto a = reinterpret_cast<__m512bh>(_mm512_loadu_si512(pairs.a));
  const auto b = reinterpret_cast<__m512bh>(_mm512_loadu_si512(pairs.b));
  _mm512_storeu_ps(pairs.sum, _mm512_dpbf16_ps(_mm512_loadu_ps(pairs.sum), a, b));
}

void add_pairs_by_chain(PairsOf16& pairs) {
  for (int i = 0; i < 16; ++i) {
    pairs.sum[i] = bf16_chain_step(even_of(pairs.a[i]), even_of(pairs.b[i]), odd_of(pairs.a[i]),
                                   odd_of(pairs.b[i]), pairs.sum[i]);
  }
}

PairsOf16 drawn_pairs(uint64_t number) {
  PairsOf16 pairs{};
  for (uint64_t i = 0; i < 16; ++i) {
    const auto w = philox(1, number, 2 * i), x = philox(1, number, 2 * i + 1);
    // One class for both elements and the sum in half of the vectors, so that they meet.
    const uint32_t shared = x[2];
    const auto choice = [&](uint32_t own) { return number % 2 == 0 ? shared : own; };
    pairs.a[i] = drawn_bf16(w[0], choice(w[0] >> 5)) | drawn_bf16(w[1], choice(w[1] >> 5)) << 16;
    pairs.b[i] = drawn_bf16(w[2], choice(w[2] >> 5)) | drawn_bf16(w[3], choice(w[3] >> 5)) << 16;
    // The sum: near the first product with the other sign (cancels), or of a class of its own.
    const float product = odd_of(pairs.a[i]) * odd_of(pairs.b[i]);
    const uint32_t own = drawn_bf16(x[0], x[1] >> 3) << 16 | (x[0] & 0xffffu);
    pairs.sum[i] = x[3] % 4 == 0 ? -product : std::bit_cast<float>(own);
  }
  return pairs;
}

bool bf16_instruction_is_the_chain() {
  static const bool is = compare();
  return is;
}

bool bf16_instruction_is_fast(std::string_view maker) {
  // Zen 4 and 5 double the rate of f32. On Sapphire Rapids oneDNN's products with the instruction
  // were 1.6 to 1.8 times slower than ours of widened numbers.
  return maker != "GenuineIntel";
}

std::string_view bf16_instruction_refused() {
  static const std::string_view why = [] {
    if (!cpu_has_bf16_instruction()) return "this CPU has no AVX512-BF16";
    if (!bf16_instruction_is_fast(cpu_maker())) return "two FMAs are faster on this CPU";
    if (bf16_instruction_is_the_chain()) return "";
    log::warning(
        "this CPU's VDPBF16PS does not compute what its manual says: FMA is used, which is slower");
    return "this CPU's VDPBF16PS differs from its manual";
  }();
  return why;
}

}  // namespace megalith::device
