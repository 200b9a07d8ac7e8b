// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/narrow/block_factors.h"
#include "kernels/narrow/implementations.h"
#include "kernels/narrow/narrow_access.h"

namespace megalith::kernels {
namespace {

void quantize_block(const QuantizeBlocks& a, int64_t block_row, int64_t block_column) {
  const int64_t top = block_row * a.block_rows, left = block_column * a.block_columns;
  const int64_t bottom = std::min(top + a.block_rows, a.x.size(0));
  const int64_t right = std::min(left + a.block_columns, a.x.size(1));
  float amax = 0;
  for (int64_t t = top; t < bottom; ++t) {
    for (int64_t c = left; c < right; ++c) amax = std::fmax(amax, std::fabs(read_float(a.x, t, c)));
  }
  const float factor = write_block_scale(a, block_row, block_column, amax);
  for (int64_t t = top; t < bottom; ++t) {
    for (int64_t c = left; c < right; ++c) write_float(a.y, t, c, read_float(a.x, t, c) * factor);
  }
}

}  // namespace

void quantize_blocks_reference(Exec&, const QuantizeBlocks& arguments) {
  for (int64_t row = 0; row < arguments.scales.size(0); ++row) {
    for (int64_t column = 0; column < arguments.scales.size(1); ++column) {
      quantize_block(arguments, row, column);
    }
  }
}

void dequantize_blocks_reference(Exec&, const DequantizeBlocks& a) {
  for (int64_t t = 0; t < a.x.size(0); ++t) {
    for (int64_t c = 0; c < a.x.size(1); ++c) {
      const double scale = read_double(a.scales, t / a.block_rows, c / a.block_columns);
      write_float(a.y, t, c, read_float(a.x, t, c) * static_cast<float>(scale));
    }
  }
}

}  // namespace megalith::kernels
