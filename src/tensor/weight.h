// SPDX-License-Identifier: Apache-2.0
// A weight as kernels read it: numbers in a storage format, and a version. A format is more than an
// element type: what it stores may be blocks of codes with scales, in an order of their own.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "tensor/view.h"

namespace megalith {

/// Those that some kernel reads. One entry here, one line in each function below.
///   f8_e4m3, f8_e5m2   codes, which products multiply by a scale that they are given (linear.h)
///   q8_0, q4_0, q4_1   GGUF's blocks along the rows, in tiles (blocks.h)
///   fp8                codes e4m3 in such tiles, and an f32 scale for each row
enum class Format : uint8_t { f64, f32, bf16, f16, f8_e4m3, f8_e5m2, q8_0, q4_0, q4_1, fp8 };

/// True if elements are numbers, rows one after another: no blocks.
constexpr bool is_plain(Format format) {
  return format != Format::q8_0 && format != Format::q4_0 && format != Format::q4_1 &&
         format != Format::fp8;
}
/// The type of a stored element: bytes where the format is not plain.
constexpr DType dtype_of(Format format) {
  switch (format) {
    case Format::f64:
      return DType::f64;
    case Format::f32:
      return DType::f32;
    case Format::bf16:
      return DType::bf16;
    case Format::f16:
      return DType::f16;
    case Format::f8_e4m3:
      return DType::f8_e4m3;
    case Format::f8_e5m2:
      return DType::f8_e5m2;
    default:
      return DType::u8;
  }
}
std::string_view name_of(Format format);
inline std::string_view format_as(Format format) { return name_of(format); }
/// Nothing for an unknown name.
std::optional<Format> format_from_name(std::string_view name);
/// The plain format of a type of floating-point numbers; a check fails for others.
Format plain_format(DType dtype);
/// What a weight of this shape is stored as: itself, or in blocks, for which it must be a matrix
/// whose rows are whole blocks, u8 [groups of rows, bytes of a group and its scales].
Shape stored_shape(Format format, const Shape& shape);

struct Weight {
  ConstView view;  // [stored_shape()]
  Format format = Format::f32;
  Shape shape;  // of the weight
  /// Counts the changes of the value, for whoever keeps something made from it (packed panels).
  uint64_t version = 0;

  Weight() = default;
  Weight(const ConstView& values, Format stored, const Shape& whole, uint64_t changes = 0)
      : view(values), format(stored), shape(whole), version(changes) {}
  /// A plain one, of anything that is a view.
  template <std::convertible_to<ConstView> Values>
  Weight(const Values& values)
      : view(values), format(plain_format(view.dtype())), shape(view.shape()) {}

  /// For readers that know plain formats alone; a check fails for others.
  operator ConstView() const {
    MEGA_CHECK(is_plain(format), "weights in {} are in blocks, which this reader knows nothing of",
               format);
    return view;
  }
};

}  // namespace megalith
