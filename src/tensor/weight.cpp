// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

namespace megalith {

std::string_view name_of(Format format) {
  return is_plain(format) ? name_of(dtype_of(format)) : "q8_0";
}

Format plain_format(DType dtype) {
  for (const Format format : {Format::f64, Format::f32, Format::bf16}) {
    if (dtype_of(format) == dtype) return format;
  }
  MEGA_CHECK(false, "no weights are stored as {}", dtype);
  return Format::f32;
}

}  // namespace megalith
