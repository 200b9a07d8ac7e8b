// SPDX-License-Identifier: Apache-2.0
// A weight as kernels read it: numbers in a storage format, the scales that belong to them, and a
// version. A format is more than an element type: what it stores may be codes that mean nothing
// without their scales.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "tensor/view.h"

namespace megalith {

/// Those that some kernel reads. One entry here, one line in each function below.
///   q8_0   8-bit codes in blocks along the rows, one scale a block (q8_0.h)
enum class Format : uint8_t { f64, f32, bf16, q8_0 };

/// The type of a stored element: of a code where the format is not plain.
constexpr DType dtype_of(Format format) {
  switch (format) {
    case Format::f64:
      return DType::f64;
    case Format::f32:
      return DType::f32;
    case Format::bf16:
      return DType::bf16;
    case Format::q8_0:
      return DType::i8;
  }
  return DType::f32;
}
/// True if the elements are the values: no scales.
constexpr bool is_plain(Format format) {
  return format == Format::f64 || format == Format::f32 || format == Format::bf16;
}
std::string_view name_of(Format format);
inline std::string_view format_as(Format format) { return name_of(format); }
/// The plain format of a type of floating-point numbers; a check fails for others.
Format plain_format(DType dtype);

struct Weight {
  ConstView view;  // [shape of the weight]
  Format format = Format::f32;
  ConstView scales;  // absent where the format is plain; q8_0: f16 [rows, columns / 32]
  /// Counts the changes of the value, for whoever keeps something made from it (packed panels).
  uint64_t version = 0;

  Weight() = default;
  Weight(const ConstView& values, Format stored, const ConstView& with = {}, uint64_t changes = 0)
      : view(values), format(stored), scales(with), version(changes) {}
  /// A plain one, of anything that is a view.
  template <std::convertible_to<ConstView> Values>
  Weight(const Values& values) : view(values), format(plain_format(view.dtype())) {}

  /// For readers that know plain formats alone; a check fails for others.
  operator ConstView() const {
    MEGA_CHECK(is_plain(format), "weights in {} have scales, which this reader knows nothing of",
               format);
    return view;
  }
};

}  // namespace megalith
