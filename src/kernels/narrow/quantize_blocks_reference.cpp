// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/narrow/block_factors.h"
#include "kernels/narrow/implementations.h"
#include "kernels/narrow/narrow_access.h"

namespace megalith::kernels {
namespace {

/// Calls body(its rows, its columns) with each block of x.
template <typename Body>
void for_each_block(const ConstView& x, int64_t block_rows, int64_t block_columns,
                    const Body& body) {
  for (int64_t top = 0; top < x.size(0); top += block_rows) {
    for (int64_t left = 0; left < x.size(1); left += block_columns) {
      body(Range{top, std::min(top + block_rows, x.size(0))},
           Range{left, std::min(left + block_columns, x.size(1))});
    }
  }
}

float magnitude_of(const ConstView& x, Range rows, Range columns) {
  float amax = 0;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    for (int64_t c = columns.begin; c < columns.end; ++c)
      amax = std::fmax(amax, std::fabs(read_float(x, t, c)));
  }
  return amax;
}

float through_code(float x, DType code) {
  return code == DType::f8_e4m3 ? to_f32(to_f8_e4m3(x)) : to_f32(to_f8_e5m2(x));
}

}  // namespace

void quantize_blocks_reference(Exec&, const QuantizeBlocks& a) {
  for_each_block(a.x, a.block_rows, a.block_columns, [&](Range rows, Range columns) {
    const BlockScale scale =
        BlockScale::of(magnitude_of(a.x, rows, columns), a.scales.dtype(), a.rule);
    write_block_scale(a.scales, rows.begin / a.block_rows, columns.begin / a.block_columns, scale);
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      for (int64_t c = columns.begin; c < columns.end; ++c)
        write_float(a.y, t, c, read_float(a.x, t, c) * scale.factor);
    }
  });
}

void round_blocks_reference(Exec&, const RoundBlocks& a) {
  for_each_block(a.x, a.block_rows, a.block_columns, [&](Range rows, Range columns) {
    const BlockScale scale = BlockScale::of(magnitude_of(a.x, rows, columns), a.scale, a.rule);
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const float code = through_code(read_float(a.x, t, c) * scale.factor, a.code);
        write_float(a.y, t, c, code * scale.inverse);
      }
    }
  });
}

}  // namespace megalith::kernels
