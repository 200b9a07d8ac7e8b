// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace megalith {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 12> kNames{{{DType::f64, "f64"},
                                                                     {DType::f32, "f32"},
                                                                     {DType::f16, "f16"},
                                                                     {DType::bf16, "bf16"},
                                                                     {DType::f8_e4m3, "f8_e4m3"},
                                                                     {DType::f8_e5m2, "f8_e5m2"},
                                                                     {DType::f8_e8m0, "f8_e8m0"},
                                                                     {DType::i64, "i64"},
                                                                     {DType::i32, "i32"},
                                                                     {DType::u16, "u16"},
                                                                     {DType::u8, "u8"},
                                                                     {DType::i8, "i8"}}};

/// The value of a small format with `exponent_bits` and `mantissa_bits`, IEEE-like unless the
/// caller has dealt with its special codes.
float widen(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                              : std::ldexp(static_cast<float>(mantissa | (1u << mantissa_bits)),
                                           exponent - bias - mantissa_bits);
  return (bits >> (exponent_bits + mantissa_bits)) & 1u ? -magnitude : magnitude;
}

/// The code (without sign) nearest to |x|, ties to even, counting through the format's exponents;
/// may exceed the largest finite code, which the caller handles.
uint32_t narrow_magnitude(float x, int exponent_bits, int mantissa_bits) {
  const float magnitude = std::fabs(x);
  if (magnitude == 0.0f) return 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  const int unbiased = std::max(exponent - 1, 1 - bias);
  // In units of the last place of this binade; exact, since it is a power-of-two scaling in double.
  const double units = std::ldexp(static_cast<double>(magnitude), mantissa_bits - unbiased);
  const auto rounded = static_cast<uint32_t>(std::nearbyint(units));  // ties to even
  return (static_cast<uint32_t>(unbiased + bias - 1) << mantissa_bits) + rounded;
}

}  // namespace

std::string_view name_of(DType dtype) {
  for (const auto& [value, name] : kNames) {
    if (value == dtype) return name;
  }
  return "unknown";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

float to_f32(f16_t x) {
  if ((x.bits & 0x7c00u) == 0x7c00u) {
    const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
    return std::bit_cast<float>(sign | 0x7f800000u |
                                (static_cast<uint32_t>(x.bits & 0x3ffu) << 13));
  }
  return widen(x.bits, 5, 10);
}

float to_f32(f8_e4m3_t x) {
  if ((x.bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(0x7fc00000u);
  return widen(x.bits, 4, 3);
}

float to_f32(f8_e5m2_t x) {
  if ((x.bits & 0x7cu) == 0x7cu) {
    const uint32_t sign = static_cast<uint32_t>(x.bits & 0x80u) << 24;
    return std::bit_cast<float>(sign | 0x7f800000u | (static_cast<uint32_t>(x.bits & 3u) << 21));
  }
  return widen(x.bits, 5, 2);
}

float to_f32(f8_e8m0_t x) {
  if (x.bits == 0xff) return std::bit_cast<float>(0x7fc00000u);
  return x.bits == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 23);
}

f16_t to_f16(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000u : 0u;
  if (std::isnan(x)) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (std::isinf(x)) return {static_cast<uint16_t>(sign | 0x7c00u)};
  return {static_cast<uint16_t>(sign | std::min(narrow_magnitude(x, 5, 10), 0x7c00u))};
}

f8_e4m3_t to_f8_e4m3(float x, Overflow overflow) {
  constexpr uint32_t kNan = 0x7f, kLargest = 0x7e;  // no infinity
  const uint8_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x)) return {static_cast<uint8_t>(sign | kNan)};
  const uint32_t code = std::isinf(x) ? kNan : narrow_magnitude(x, 4, 3);
  return {static_cast<uint8_t>(sign |
                               std::min(code, overflow == Overflow::saturate ? kLargest : kNan))};
}

f8_e5m2_t to_f8_e5m2(float x, Overflow overflow) {
  constexpr uint32_t kNan = 0x7f, kInfinity = 0x7c, kLargest = 0x7b;
  const uint8_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x)) return {static_cast<uint8_t>(sign | kNan)};
  const uint32_t code = std::isinf(x) ? kInfinity : narrow_magnitude(x, 5, 2);
  return {static_cast<uint8_t>(
      sign | std::min(code, overflow == Overflow::saturate ? kLargest : kInfinity))};
}

f8_e8m0_t to_f8_e8m0(float x) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return {0xff};
  // Half a binade more carries into the exponent. The least binade reaches down to 0, and there
  // halfway goes down (2^-127 is itself the middle of the denormals).
  const uint32_t half = magnitude < 0x800000u ? 0x3fffffu : 0x400000u;
  return {static_cast<uint8_t>((magnitude + half) >> 23)};
}

f8_e8m0_t to_f8_e8m0_up(float x) {
  if (std::isnan(x)) return {0xff};
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x <= 0x1p-127f) return {0};
  return {static_cast<uint8_t>(std::min((bits + 0x7fffffu) >> 23, 0xfeu))};
}

}  // namespace megalith
