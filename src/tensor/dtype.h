// SPDX-License-Identifier: Apache-2.0
// Element types and the scalar conversions between them. A conversion to a narrower type rounds
// once, to nearest even; widening is exact.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace megalith {

enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i64,
  i32,
  u16,
  u8,
  i8
};

/// Bytes of one element.
constexpr int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::u16:
      return 2;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
    case DType::u8:
    case DType::i8:
      return 1;
  }
  return 0;
}

/// A floating type of 16 bits.
constexpr bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// "f32", "bf16", ... and back (nothing for an unknown name).
std::string_view name_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
/// fmt prints a DType by its name.
inline std::string_view format_as(DType dtype) { return name_of(dtype); }

/// Storage types: one C++ type per format, so that overloads and templates can tell them apart.
struct bf16_t {
  uint16_t bits = 0;
};
struct f16_t {
  uint16_t bits = 0;
};
struct f8_e4m3_t {
  uint8_t bits = 0;
};
struct f8_e5m2_t {
  uint8_t bits = 0;
};
/// A power of two and nothing else, 2^(bits - 127); 255 is NaN. No sign, no zero.
struct f8_e8m0_t {
  uint8_t bits = 0;
};

constexpr float to_f32(float x) { return x; }
constexpr float to_f32(bf16_t x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
float to_f32(f16_t x);
float to_f32(f8_e4m3_t x);
float to_f32(f8_e5m2_t x);
float to_f32(f8_e8m0_t x);

/// Round to nearest even; NaN stays NaN (quiet), overflow goes to infinity.
constexpr bf16_t to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
f16_t to_f16(float x);
/// What a conversion to 8 bits makes of a number that rounds beyond the largest finite one.
///   saturate    the largest finite one, of infinity too: `cvt.satfinite` of NVIDIA's GPUs, which
///               Transformer Engine's casts are (Micikevicius et al. 2022, section 3)
///   nonfinite   what the format has for it: infinity in e5m2, as PyTorch's cast; NaN in e4m3, as
///               PyTorch 2.11's cast to float8_e4m3fn (that of 2.15 saturates, infinity too)
enum class Overflow : uint8_t { saturate, nonfinite };
/// NaN stays NaN with its sign.
f8_e4m3_t to_f8_e4m3(float x, Overflow overflow = Overflow::saturate);
f8_e5m2_t to_f8_e5m2(float x, Overflow overflow = Overflow::saturate);
/// The power of two nearest to |x|, the upper one halfway, as PyTorch's cast to float8_e8m0fnu:
/// infinity and NaN are NaN, 2^127 1.5 and more too; below 2^-127 1.5 it is 2^-127, of 0 too.
f8_e8m0_t to_f8_e8m0(float x);
/// The least power of two that is not below x >= 0, at most 2^127 (so of infinity), at least
/// 2^-127; NaN stays NaN. `cvt.rp.satfinite`, by which Transformer Engine makes scales of blocks.
f8_e8m0_t to_f8_e8m0_up(float x);

/// The largest finite number of a type of 16 or 8 bits with a sign.
constexpr float largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504.0f;
    case DType::f8_e4m3:
      return 448.0f;
    case DType::f8_e5m2:
      return 57344.0f;
    default:
      return std::bit_cast<float>(dtype == DType::bf16 ? 0x7f7f0000u : 0x7f7fffffu);
  }
}

/// The DType of a C++ type.
template <typename T>
struct dtype_of_type;
template <>
struct dtype_of_type<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of_type<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of_type<f16_t> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of_type<bf16_t> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of_type<f8_e4m3_t> {
  static constexpr DType value = DType::f8_e4m3;
};
template <>
struct dtype_of_type<f8_e5m2_t> {
  static constexpr DType value = DType::f8_e5m2;
};
template <>
struct dtype_of_type<f8_e8m0_t> {
  static constexpr DType value = DType::f8_e8m0;
};
template <>
struct dtype_of_type<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of_type<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of_type<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct dtype_of_type<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of_type<int8_t> {
  static constexpr DType value = DType::i8;
};
template <typename T>
inline constexpr DType kDTypeOf = dtype_of_type<T>::value;

}  // namespace megalith
