// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/quantize_blocks.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<QuantizeBlocks> kQuantizeBlocks[] = {
    {"simd", [](const Exec&, const QuantizeBlocks&) { return std::string_view(); },
     quantize_blocks_simd},
    {"reference", [](const Exec&, const QuantizeBlocks&) { return std::string_view(); },
     quantize_blocks_reference},
};

constexpr Implementation<DequantizeBlocks> kDequantizeBlocks[] = {
    {"simd", [](const Exec&, const DequantizeBlocks&) { return std::string_view(); },
     dequantize_blocks_simd},
    {"reference", [](const Exec&, const DequantizeBlocks&) { return std::string_view(); },
     dequantize_blocks_reference},
};

void check_codes_and_scales(const ConstView& codes, const ConstView& scales, int64_t block_rows,
                            int64_t block_columns) {
  MEGA_CHECK(codes.dtype() == DType::f8_e4m3 || codes.dtype() == DType::f8_e5m2, "codes of {}",
             codes.dtype());
  MEGA_CHECK(scales.dtype() == DType::f32 || scales.dtype() == DType::f8_e8m0, "scales of {}",
             scales.dtype());
  MEGA_CHECK(scales.shape() == block_scales_shape(codes.shape(), block_rows, block_columns),
             "scales of shape {} for {}", scales.shape(), codes.shape());
}

}  // namespace

Shape block_scales_shape(const Shape& shape, int64_t block_rows, int64_t block_columns) {
  MEGA_CHECK_EQ(shape.num_dims(), 2);
  MEGA_CHECK(block_rows > 0 && block_columns > 0, "blocks of {} x {}", block_rows, block_columns);
  return {(shape[0] + block_rows - 1) / block_rows, (shape[1] + block_columns - 1) / block_columns};
}

void quantize_blocks(Exec& exec, const QuantizeBlocks& arguments) {
  const auto& [x, y, scales, block_rows, block_columns, rule] = arguments;
  check_same_shape(x, y);
  MEGA_CHECK(is_narrow(x.dtype()) && x.dtype() != DType::f16, "numbers of {}", x.dtype());
  check_codes_and_scales(y, scales, block_rows, block_columns);
  MEGA_CHECK(rule.largest > 0 && rule.epsilon >= 0 && rule.at_most > 0);
  const double flops = 3 * static_cast<double>(x.num_elements());
  run_chosen<QuantizeBlocks>(exec, "quantize_blocks",
                             {flops, x.bytes(), y.bytes() + scales.bytes()}, kQuantizeBlocks,
                             arguments);
}

void dequantize_blocks(Exec& exec, const DequantizeBlocks& arguments) {
  const auto& [x, scales, y, block_rows, block_columns] = arguments;
  check_same_shape(x, y);
  check_codes_and_scales(x, scales, block_rows, block_columns);
  MEGA_CHECK(is_narrow(y.dtype()) && y.dtype() != DType::f16, "numbers of {}", y.dtype());
  run_chosen<DequantizeBlocks>(
      exec, "dequantize_blocks",
      {static_cast<double>(x.num_elements()), x.bytes() + scales.bytes(), y.bytes()},
      kDequantizeBlocks, arguments);
}

}  // namespace megalith::kernels
