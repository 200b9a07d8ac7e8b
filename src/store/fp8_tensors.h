// SPDX-License-Identifier: Apache-2.0
// Weights in FP8: matrices of codes e4m3 beside tensors of scales, as Hugging Face folders have
// them, and as matrices of the format fp8 (tensor/blocks.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_folder.h"
#include "families/quantization_config.h"
#include "tensor/shape.h"
#include "tensor/shard.h"

namespace megalith::store {

/// What multiplies the codes of a foreign tensor [rows, columns].
struct Fp8Scales {
  std::string name;           // of the tensor that holds them
  int64_t block_rows = 1;     // that share a scale
  int64_t block_columns = 1;  // likewise; of scales that are a row's, all
  int64_t per_row = 1;        // blocks side by side
  std::vector<float> values;  // [blocks, per_row]

  bool are_of_rows() const { return per_row == 1; }
  float of(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row / block_rows * per_row + column / block_columns)];
  }
};

/// The scales of tensor `name`, whose codes are [rows, columns], from `name`_scale or
/// `name`_scale_inv: one, one for each row, or one for each of the configuration's blocks.
/// IntegrityError naming the tensor that is missing, has another shape or type, or holds what is no
/// positive number.
Fp8Scales read_fp8_scales(const checkpoint::SafetensorsFolder& folder, const std::string& name,
                          const models::Fp8Config& config, const checkpoint::AtWork& at_work);

/// fl32(scale * code) of all elements, row major.
std::vector<std::byte> widen_fp8(std::span<const std::byte> codes, int64_t columns,
                                 const Fp8Scales& scales);

/// A matrix in fp8 as a file has it, of f32 rows: code = round(value / scale), saturated, with one
/// scale for each row, the least bf16 number that lets its largest magnitude reach the largest
/// code; of a row of zeros 1. With `trained`, what multiplied weights when codes were made in
/// training: code = round(value * trained), and every row's scale is fl32(1 / trained). Nothing
/// where a value is not finite.
std::optional<std::vector<std::byte>> to_fp8(std::span<const float> values, int64_t columns,
                                             std::optional<float> trained = {});

/// The part of such a matrix of this shape that a shard names, as one.
std::vector<std::byte> part_of_fp8(std::vector<std::byte> matrix, const Shape& shape,
                                   const Shard& part);

}  // namespace megalith::store
