// SPDX-License-Identifier: Apache-2.0
// The operands of the sums that bench/gpu/tensor_cores.py ran on GPUs, made again:
// bench/gpu/cases.py has the same rules in Python. A code is a function of (format, distribution,
// seed, index).
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "math/tensor_core.h"
#include "tensor/dtype.h"

namespace megalith::golden {

struct CoreFormat {
  std::string_view name;
  CoreOperand operand;
  CoreSum how;
  int exponent_bits, top;  // the largest exponent field of finite numbers
  int mantissa_bits() const { return operand.mantissa_bits; }
  int bias() const { return 1 - operand.least_exponent; }
};
inline constexpr CoreFormat kCoreFormats[] = {{"e4m3", kCoreE4m3, kHopper8, 4, 15},
                                              {"e5m2", kCoreE5m2, kHopper8, 5, 30},
                                              {"bf16", kCoreBf16, kHopper16, 8, 254},
                                              {"f16", kCoreF16, kHopper16, 5, 30},
                                              {"tf32", kCoreTf32, kHopperTf32, 8, 254}};
inline constexpr int kCoreDistributions = 12;

/// Splitmix64's finaliser of seed 2^32 + index.
inline uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t x = (seed << 32) + index + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The exponent field of a code: of any number, near 1, with each binade half as likely as the one
/// above, the least ones, all, ...
inline int exponent_field(const CoreFormat& f, int distribution, uint32_t pick) {
  const bool wide = f.exponent_bits == 8;
  const int bias = f.bias();
  int low = wide ? bias - 30 : 0, high = wide ? bias + 30 : f.top;
  switch (distribution) {
    case 1:
      low = bias - 4, high = bias + 4;
      break;
    case 2:
    case 3:
    case 5:
      return std::max(bias + 1 - (pick == 0 ? 24 : std::countr_zero(pick)), 0);
    case 7:
      low = 0, high = 2;
      break;
    case 8:
      low = 0, high = f.top;
      break;
    case 9:
      low = bias - 2, high = (1 << f.exponent_bits) - 1;
      break;
    case 10:
      low = high = 0;
      break;
    case 11:
      low = wide ? bias + 62 : f.top - 1, high = wide ? bias + 64 : f.top;
      break;
    default:
      break;
  }
  return low + static_cast<int>(pick % static_cast<uint32_t>(high - low + 1));
}

inline uint32_t core_code(const CoreFormat& f, int distribution, uint64_t seed, uint64_t index) {
  const uint64_t r = mixed(seed, index);
  const int mantissa_bits = f.mantissa_bits();
  const auto field = static_cast<uint32_t>(
      exponent_field(f, distribution, static_cast<uint32_t>(r >> 32) & 0xffffffu));
  auto mantissa = static_cast<uint32_t>(r >> 8) & ((1u << mantissa_bits) - 1);
  if (distribution == 10 && ((r >> 58) & 31u) != 0) mantissa = 0;  // zeros of both signs
  const uint32_t sign = distribution == 3 ? 0 : static_cast<uint32_t>(r >> 63);
  uint32_t code = sign << (f.exponent_bits + mantissa_bits) | field << mantissa_bits | mantissa;
  const bool may_be_nan = distribution == 9 || distribution == 11;
  if (f.name == "e4m3" && !may_be_nan && (code & 0x7fu) == 0x7fu) code ^= 1u;
  if (distribution == 4 && ((r >> 56) & 3u) != 0) code = 0;
  if (distribution == 9 && ((r >> 56) & 0x3fu) != 0) {
    code = 1u << (f.exponent_bits + mantissa_bits - 2);  // mostly an ordinary number
  }
  return code;
}

inline float core_value(const CoreFormat& f, uint32_t code) {
  if (f.name == "e4m3") return to_f32(f8_e4m3_t{static_cast<uint8_t>(code)});
  if (f.name == "e5m2") return to_f32(f8_e5m2_t{static_cast<uint8_t>(code)});
  if (f.name == "bf16") return to_f32(bf16_t{static_cast<uint16_t>(code)});
  if (f.name == "f16") return to_f32(f16_t{static_cast<uint16_t>(code)});
  return std::bit_cast<float>(code << 13);
}

/// `count` operands from number `first` on.
inline std::vector<float> core_values(const CoreFormat& f, int distribution, uint64_t seed,
                                      uint64_t first, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = core_value(f, core_code(f, distribution, seed, first + i));
  }
  return values;
}

/// Where an accumulator starts.
inline float core_start(int distribution, uint64_t seed, uint64_t index) {
  const uint64_t r = mixed(seed, index);
  const auto sign = static_cast<uint32_t>(r >> 63) << 31;
  uint32_t low = 0, high = 0;
  switch (distribution) {
    case 5:
      low = 127, high = 143;
      break;
    case 6:
      low = 107, high = 147;
      break;
    case 7:
      low = 92, high = 132;
      break;
    case 10:
      return std::bit_cast<float>(sign);
    case 11:
      low = 250, high = 254;
      break;
    default:
      return 0;
  }
  const uint32_t exponent = low + (static_cast<uint32_t>(r >> 32) & 0xffffu) % (high - low + 1);
  return std::bit_cast<float>(sign | exponent << 23 | (static_cast<uint32_t>(r) & 0x7fffffu));
}

}  // namespace megalith::golden
