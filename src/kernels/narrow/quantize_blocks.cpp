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

constexpr Implementation<RoundBlocks> kRoundBlocks[] = {
    {"simd", [](const Exec&, const RoundBlocks&) { return std::string_view(); }, round_blocks_simd},
    {"reference", [](const Exec&, const RoundBlocks&) { return std::string_view(); },
     round_blocks_reference},
};

void check_types(DType code, DType scale) {
  MEGA_CHECK(code == DType::f8_e4m3 || code == DType::f8_e5m2, "codes of {}", code);
  MEGA_CHECK(scale == DType::f32 || scale == DType::f8_e8m0, "scales of {}", scale);
}
void check_numbers(const ConstView& x) {
  MEGA_CHECK(is_narrow(x.dtype()) && x.dtype() != DType::f16, "numbers of {}", x.dtype());
}
void check_rule(const ScaleRule& rule) {
  MEGA_CHECK(rule.largest > 0 && rule.epsilon >= 0 && rule.at_most > 0);
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
  check_numbers(x);
  check_types(y.dtype(), scales.dtype());
  MEGA_CHECK(scales.shape() == block_scales_shape(y.shape(), block_rows, block_columns),
             "scales of shape {} for {}", scales.shape(), y.shape());
  check_rule(rule);
  const double flops = 3 * static_cast<double>(x.num_elements());
  run_chosen<QuantizeBlocks>(exec, "quantize_blocks",
                             {flops, x.bytes(), y.bytes() + scales.bytes()}, kQuantizeBlocks,
                             arguments);
}

void round_blocks(Exec& exec, const RoundBlocks& arguments) {
  const auto& [x, y, code, scale, block_rows, block_columns, rule] = arguments;
  check_same_shape(x, y);
  check_numbers(x);
  check_numbers(y);
  check_types(code, scale);
  check_rule(rule);
  MEGA_CHECK(block_rows > 0 && block_columns > 0, "blocks of {} x {}", block_rows, block_columns);
  const double flops = 4 * static_cast<double>(x.num_elements());
  run_chosen<RoundBlocks>(exec, "round_blocks", {flops, x.bytes(), y.bytes()}, kRoundBlocks,
                          arguments);
}

}  // namespace megalith::kernels
