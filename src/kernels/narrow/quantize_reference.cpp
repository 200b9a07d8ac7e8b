// SPDX-License-Identifier: Apache-2.0
// The specification. The products are of f32, which is what a GPU's cast computes.
#include <cmath>

#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"
#include "kernels/narrow/narrow_access.h"

namespace megalith::kernels {
namespace {

/// Adds to saturated, flushed, not finite.
void count(int64_t* counts, float x, float scaled, uint8_t code, DType dtype) {
  const bool finite = std::isfinite(x);
  const bool beyond =
      dtype == DType::f8_e4m3
          ? std::isnan(to_f32(to_f8_e4m3(scaled, Overflow::nonfinite))) && !std::isnan(scaled)
          : std::isinf(to_f32(to_f8_e5m2(scaled, Overflow::nonfinite)));
  counts[0] += finite && beyond ? 1 : 0;
  counts[1] += finite && x != 0 && (code & 0x7fu) == 0 ? 1 : 0;
  counts[2] += finite ? 0 : 1;
}

}  // namespace

void quantize_reference(Exec&, const Quantize& arguments) {
  const ConstView x = as_matrix(arguments.x);
  const View y = as_matrix(arguments.y);
  const float scale = *arguments.scale.as<float>();
  float amax = arguments.amax.absent() ? 0 : *arguments.amax.as<float>();
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t c = 0; c < x.size(1); ++c) {
      const float value = read_float(x, t, c), scaled = value * scale;
      write_float(y, t, c, scaled);
      if (!arguments.transposed.absent()) write_float(arguments.transposed, c, t, scaled);
      amax = std::fmax(amax, std::fabs(value));
      if (!arguments.counts.absent()) {
        const auto code = static_cast<uint8_t>(y.data()[t * y.row_stride() + c]);
        count(arguments.counts.as<int64_t>(), value, scaled, code, y.dtype());
      }
    }
  }
  if (!arguments.amax.absent()) *arguments.amax.as<float>() = amax;
}

void dequantize_reference(Exec&, const Dequantize& arguments) {
  const ConstView x = as_matrix(arguments.x);
  const View y = as_matrix(arguments.y);
  const float scale = *arguments.scale.as<float>();
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t c = 0; c < x.size(1); ++c) write_float(y, t, c, read_float(x, t, c) * scale);
  }
}

void absolute_maximum_reference(Exec&, const AbsoluteMaximum& arguments) {
  const ConstView x = as_matrix(arguments.x);
  float& amax = *arguments.amax.as<float>();
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t c = 0; c < x.size(1); ++c) amax = std::fmax(amax, std::fabs(read_float(x, t, c)));
  }
}

}  // namespace megalith::kernels
