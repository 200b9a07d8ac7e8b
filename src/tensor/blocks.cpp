// SPDX-License-Identifier: Apache-2.0
#include "tensor/blocks.h"

#include <cmath>
#include <cstring>

#include "base/check.h"

namespace megalith {
namespace {

constexpr int64_t kHalf = kBlockColumns / 2;

void check_sizes(Format format, size_t blocks, int64_t rows, int64_t columns, size_t tiles) {
  MEGA_CHECK(!is_plain(format) && columns % kBlockColumns == 0, "{} columns in {}", columns,
             format);
  const int64_t file = matrix_bytes(format, rows, columns);
  MEGA_CHECK(static_cast<int64_t>(blocks) == file, "{} bytes of blocks, not {}", blocks, file);
  const int64_t all = stored_shape(format, {rows, columns}).num_elements();
  MEGA_CHECK(static_cast<int64_t>(tiles) == all, "{} bytes of tiles, not {}", tiles, all);
}

unsigned byte_at(const std::byte* at) { return std::to_integer<unsigned>(*at); }

/// Where the byte with a column of a row lies behind the scales of its tile.
int64_t code_at(Format format, int64_t lane, int64_t column) {
  if (format == Format::fp8) {
    const int64_t quad = column / 4 * 4 + lane / 4, pair = column % 4 / 2;
    return ((quad * 2 + pair) * 4 + lane % 4) * 2 + column % 2;
  }
  const int64_t step = format == Format::q8_0 ? column / 4 : column / 8;
  return (step * kGroupRows + lane) * 4 + column % 4;
}
/// True if the code of a column of 4 bits is the high half of its byte in a tile.
bool is_high(int64_t column) { return column / 4 % 2 == 1; }

/// The code of a column as a file has it: q8_0 signed in a byte.
unsigned tile_code(Format format, const std::byte* codes, int64_t lane, int64_t column) {
  const unsigned byte = byte_at(codes + code_at(format, lane, column));
  if (format == Format::fp8) return byte;
  if (format == Format::q8_0) return byte ^ 0x80U;
  return is_high(column) ? byte >> 4 : byte & 15U;
}

void put_block(Format format, const std::byte* block, int64_t lane, std::byte* tile) {
  if (tile_codes_at(format) > 0) std::memcpy(tile + 2 * lane, block, 2);
  if (has_least(format)) std::memcpy(tile + 2 * (kGroupRows + lane), block + 2, 2);
  const std::byte* const from = block + tile_codes_at(format) / kGroupRows;
  std::byte* const codes = tile + tile_codes_at(format);
  for (int64_t column = 0; column < kBlockColumns; ++column) {
    std::byte& to = codes[code_at(format, lane, column)];
    if (has_bytes(format)) {
      to = format == Format::q8_0 ? from[column] ^ std::byte{0x80} : from[column];
      continue;
    }
    const unsigned pair = byte_at(from + column % kHalf);
    const unsigned code = column < kHalf ? pair & 15U : pair >> 4;
    to |= static_cast<std::byte>(is_high(column) ? code << 4 : code);
  }
}

void take_block(Format format, const std::byte* tile, int64_t lane, std::byte* block) {
  if (tile_codes_at(format) > 0) std::memcpy(block, tile + 2 * lane, 2);
  if (has_least(format)) std::memcpy(block + 2, tile + 2 * (kGroupRows + lane), 2);
  std::byte* const to = block + tile_codes_at(format) / kGroupRows;
  const std::byte* const codes = tile + tile_codes_at(format);
  if (!has_bytes(format)) std::memset(to, 0, kHalf);
  for (int64_t column = 0; column < kBlockColumns; ++column) {
    const unsigned code = tile_code(format, codes, lane, column);
    if (has_bytes(format))
      to[column] = static_cast<std::byte>(code);
    else
      to[column % kHalf] |= static_cast<std::byte>(column < kHalf ? code : code << 4);
  }
}

float half_at(const std::byte* at) {
  f16_t half;
  std::memcpy(&half, at, sizeof half);
  return to_f32(half);
}

float value_of(Format format, unsigned code, float scale, float least) {
  if (format == Format::fp8) return scale * to_f32(f8_e4m3_t{static_cast<uint8_t>(code)});
  if (format == Format::q8_0) return scale * static_cast<float>(static_cast<int8_t>(code));
  if (format == Format::q4_0) return scale * (static_cast<float>(code) - 8.0F);
  return std::fma(scale, static_cast<float>(code), least);
}

/// body(lane, tile, block of the file): all of them.
template <typename Body>
void for_each_block(Format format, int64_t rows, int64_t columns, const Body& body) {
  const int64_t blocks = columns / kBlockColumns;
  for (int64_t row = 0; row < rows; ++row) {
    const TileRun run = tile_run(format, rows, columns, row / kGroupRows);
    for (int64_t b = 0; b < blocks; ++b)
      body(row % kGroupRows, run.begin + b * run.step, (row * blocks + b) * block_bytes(format));
  }
}

}  // namespace

void to_tiles(Format format, std::span<const std::byte> blocks, int64_t rows, int64_t columns,
              std::span<std::byte> tiles) {
  check_sizes(format, blocks.size(), rows, columns, tiles.size());
  if (!tiles.empty()) std::memset(tiles.data(), 0, tiles.size());
  for_each_block(format, rows, columns, [&](int64_t lane, int64_t tile, int64_t block) {
    put_block(format, blocks.data() + block, lane, tiles.data() + tile);
  });
  const int64_t scales = rows * row_scale_bytes(format);
  if (scales == 0) return;
  std::memcpy(tiles.data() + num_groups(rows) * group_bytes(format, columns),
              blocks.data() + std::ssize(blocks) - scales, static_cast<size_t>(scales));
}

void from_tiles(Format format, std::span<const std::byte> tiles, int64_t rows, int64_t columns,
                std::span<std::byte> blocks) {
  check_sizes(format, blocks.size(), rows, columns, tiles.size());
  for_each_block(format, rows, columns, [&](int64_t lane, int64_t tile, int64_t block) {
    take_block(format, tiles.data() + tile, lane, blocks.data() + block);
  });
  const int64_t scales = rows * row_scale_bytes(format);
  if (scales == 0) return;
  std::memcpy(blocks.data() + std::ssize(blocks) - scales,
              tiles.data() + num_groups(rows) * group_bytes(format, columns),
              static_cast<size_t>(scales));
}

void widen_block(const Weight& weight, int64_t row, int64_t block, float* values) {
  const Format format = weight.format;
  const TileRun run = tile_run(format, weight.shape[0], weight.shape[1], row / kGroupRows);
  const int64_t lane = row % kGroupRows;
  const std::byte* const tile = weight.view.data() + run.begin + block * run.step;
  const float scale =
      row_scale_bytes(format) > 0 ? row_scales(weight).as<float>()[row] : half_at(tile + 2 * lane);
  const float least = has_least(format) ? half_at(tile + 2 * (kGroupRows + lane)) : 0;
  for (int64_t column = 0; column < kBlockColumns; ++column)
    values[column] = value_of(format, tile_code(format, tile + tile_codes_at(format), lane, column),
                              scale, least);
}

float tile_value(const Weight& weight, int64_t row, int64_t column) {
  float values[kBlockColumns];
  widen_block(weight, row, column / kBlockColumns, values);
  return values[column % kBlockColumns];
}

ConstView row_scales(const Weight& weight) {
  if (row_scale_bytes(weight.format) == 0 || weight.view.absent()) return {};
  const int64_t rows = weight.shape[0], tiles = group_bytes(weight.format, weight.shape[1]);
  return {weight.view.data() + num_groups(rows) * tiles, DType::f32, Shape{rows}};
}

float tile_number(const Weight& weight, int64_t row, int64_t column) {
  MEGA_CHECK(weight.format == Format::fp8, "weights in {} have a scale for each block",
             weight.format);
  const TileRun run = tile_run(weight.format, weight.shape[0], weight.shape[1], row / kGroupRows);
  const std::byte* const tile = weight.view.data() + run.begin + column / kBlockColumns * run.step;
  const unsigned code = tile_code(weight.format, tile, row % kGroupRows, column % kBlockColumns);
  return to_f32(f8_e4m3_t{static_cast<uint8_t>(code)});
}

}  // namespace megalith
