// SPDX-License-Identifier: Apache-2.0
#include "store/fp8_tensors.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/integer.h"
#include "store/stored_weights.h"
#include "tensor/blocks.h"

namespace megalith::store {
namespace {

using Location = checkpoint::SafetensorsFolder::Location;

constexpr float kLargestCode = 448;

/// The least bf16 number with a normal inverse that is not below x.
float bf16_up(float x) {
  constexpr float kLeast = 0x1p-126F;
  if (x < kLeast) return kLeast;
  bf16_t rounded = to_bf16(x);
  if (to_f32(rounded) < x) ++rounded.bits;
  return to_f32(rounded);
}

bool is_one(const Shape& shape) { return shape.num_elements() == 1 && shape.num_dims() <= 2; }
/// A vector, or one beside another of a single column.
bool is_column(const Shape& shape, int64_t rows) {
  return shape == Shape{rows} || shape == (Shape{rows, 1});
}

/// Without values.
Fp8Scales shaped(const Location& at, const std::string& name, const Shape& of,
                 const models::Fp8Config& config) {
  const Shape& shape = at.entry->shape;
  const int64_t rows = of[0], columns = of[1];
  if (is_one(shape)) return {name, rows, columns, 1, {}};
  if (is_column(shape, rows)) return {name, 1, columns, 1, {}};
  const int64_t down = config.block_rows, across = config.block_columns;
  if (down > 0 && shape == (Shape{ceil_div(rows, down), ceil_div(columns, across)}))
    return {name, down, across, shape[1], {}};
  const std::string blocks =
      down > 0 ? fmt::format(", or of blocks of {} x {}", down, across) : std::string();
  throw IntegrityError("{}: tensor {} is {}, but scales of {} {} are one, or [{}, 1] of its rows{}",
                       at.file->path().string(), name, shape, name.substr(0, name.rfind("_scale")),
                       of, rows, blocks);
}

}  // namespace

Fp8Scales read_fp8_scales(const checkpoint::SafetensorsFolder& folder, const std::string& name,
                          const models::Fp8Config& config, const checkpoint::AtWork& at_work) {
  const Location& codes = *folder.find(name);
  const std::string file = codes.file->path().string();
  if (codes.entry->shape.num_dims() != 2)
    throw IntegrityError("{}: tensor {} is {} in FP8, which matrices alone can be", file, name,
                         codes.entry->shape);
  std::string at_name = name + "_scale_inv";
  if (folder.find(at_name) == nullptr) at_name = name + "_scale";
  const Location* const at = folder.find(at_name);
  if (at == nullptr)
    throw IntegrityError("{}: tensor {} is in FP8, and its scales are missing: {} or {}_inv", file,
                         name, at_name, at_name);
  if (!at->entry->dtype || !is_weight_type(*at->entry->dtype))
    throw IntegrityError("{}: tensor {} is not of a floating type (F64, F32, F16 or BF16)",
                         at->file->path().string(), at_name);
  Fp8Scales scales = shaped(*at, at_name, codes.entry->shape, config);
  std::vector<std::byte> bytes(static_cast<size_t>(at->entry->bytes));
  at->file->read(*at->entry, 0, at->entry->bytes, bytes.data(), at_work);
  bytes = convert_elements(at_name, std::move(bytes), *at->entry->dtype, DType::f32);
  scales.values.resize(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(scales.values.data(), bytes.data(), bytes.size());
  for (const float scale : scales.values) {
    if (!(scale > 0) || !std::isfinite(scale))
      throw IntegrityError("{}: tensor {} holds {}, and a scale is a positive number",
                           at->file->path().string(), at_name, scale);
  }
  return scales;
}

std::vector<std::byte> widen_fp8(std::span<const std::byte> codes, int64_t columns,
                                 const Fp8Scales& scales) {
  std::vector<std::byte> values(codes.size() * sizeof(float));
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const float value = to_f32(f8_e4m3_t{std::to_integer<uint8_t>(codes[i])}) *
                        scales.of(at / columns, at % columns);
    std::memcpy(values.data() + i * sizeof value, &value, sizeof value);
  }
  return values;
}

std::optional<std::vector<std::byte>> to_fp8(std::span<const float> values, int64_t columns,
                                             std::optional<float> trained) {
  const int64_t rows = std::ssize(values) / columns;
  std::vector<std::byte> matrix(static_cast<size_t>(matrix_bytes(Format::fp8, rows, columns)));
  std::byte* const scales = matrix.data() + values.size();
  for (int64_t row = 0; row < rows; ++row) {
    const auto of_row =
        values.subspan(static_cast<size_t>(row * columns), static_cast<size_t>(columns));
    float amax = 0;
    for (const float value : of_row) {
      if (!std::isfinite(value)) return std::nullopt;
      amax = std::max(amax, std::abs(value));
    }
    const float scale = trained ? 1 / *trained : amax == 0 ? 1 : bf16_up(amax / kLargestCode);
    for (size_t i = 0; i < of_row.size(); ++i) {
      const float scaled = trained ? of_row[i] * *trained : of_row[i] / scale;
      matrix[static_cast<size_t>(row * columns) + i] = std::byte{to_f8_e4m3(scaled).bits};
    }
    std::memcpy(scales + row * static_cast<int64_t>(sizeof scale), &scale, sizeof scale);
  }
  return matrix;
}

std::vector<std::byte> part_of_fp8(std::vector<std::byte> matrix, const Shape& shape,
                                   const Shard& part) {
  if (part.is_whole(shape)) return matrix;
  const auto codes_end = matrix.begin() + shape.num_elements();
  std::vector<std::byte> scales(codes_end, matrix.end());
  matrix.erase(codes_end, matrix.end());
  matrix = part_of(std::move(matrix), shape, part, DType::f8_e4m3);
  if (part.dim == 0) scales = part_of(std::move(scales), Shape{shape[0]}, part, DType::f32);
  matrix.insert(matrix.end(), scales.begin(), scales.end());
  return matrix;
}

}  // namespace megalith::store
