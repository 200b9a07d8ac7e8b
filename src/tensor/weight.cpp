// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

#include <array>

#include "tensor/blocks.h"

namespace megalith {
namespace {

constexpr std::array kFormats = {Format::f64,     Format::f32,     Format::bf16, Format::f16,
                                 Format::f8_e4m3, Format::f8_e5m2, Format::q8_0, Format::q4_0,
                                 Format::q4_1,    Format::fp8};

}  // namespace

std::string_view name_of(Format format) {
  if (is_plain(format)) return name_of(dtype_of(format));
  if (format == Format::fp8) return "fp8";
  return format == Format::q8_0 ? "q8_0" : format == Format::q4_0 ? "q4_0" : "q4_1";
}

std::optional<Format> format_from_name(std::string_view name) {
  for (const Format format : kFormats)
    if (name_of(format) == name) return format;
  return std::nullopt;
}

Format plain_format(DType dtype) {
  for (const Format format : kFormats) {
    if (is_plain(format) && dtype_of(format) == dtype) return format;
  }
  MEGA_CHECK(false, "no weights are stored as {}", dtype);
  return Format::f32;
}

Shape stored_shape(Format format, const Shape& shape) {
  if (is_plain(format)) return shape;
  MEGA_CHECK(shape.num_dims() == 2 && shape[1] % kBlockColumns == 0, "weights {} in {}", shape,
             format);
  return {num_groups(shape[0]),
          group_bytes(format, shape[1]) + kGroupRows * row_scale_bytes(format)};
}

}  // namespace megalith
