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
  const int64_t file = rows * (columns / kBlockColumns) * block_bytes(format);
  MEGA_CHECK(static_cast<int64_t>(blocks) == file, "{} bytes of blocks, not {}", blocks, file);
  const int64_t all = num_groups(rows) * group_bytes(format, columns);
  MEGA_CHECK(static_cast<int64_t>(tiles) == all, "{} bytes of tiles, not {}", tiles, all);
}

unsigned byte_at(const std::byte* at) { return std::to_integer<unsigned>(*at); }

/// Where the byte with a column of a row lies behind the scales of its tile.
int64_t code_at(Format format, int64_t lane, int64_t column) {
  const int64_t step = format == Format::q8_0 ? column / 4 : column / 8;
  return (step * kGroupRows + lane) * 4 + column % 4;
}
/// True if the code of a column of 4 bits is the high half of its byte in a tile.
bool is_high(int64_t column) { return column / 4 % 2 == 1; }

/// The code of a column as a file has it: q8_0 signed in a byte.
unsigned tile_code(Format format, const std::byte* codes, int64_t lane, int64_t column) {
  const unsigned byte = byte_at(codes + code_at(format, lane, column));
  if (format == Format::q8_0) return byte ^ 0x80U;
  return is_high(column) ? byte >> 4 : byte & 15U;
}

void put_block(Format format, const std::byte* block, int64_t lane, std::byte* tile) {
  std::memcpy(tile + 2 * lane, block, 2);
  if (has_least(format)) std::memcpy(tile + 2 * (kGroupRows + lane), block + 2, 2);
  const std::byte* const from = block + tile_codes_at(format) / kGroupRows;
  std::byte* const codes = tile + tile_codes_at(format);
  for (int64_t column = 0; column < kBlockColumns; ++column) {
    std::byte& to = codes[code_at(format, lane, column)];
    if (format == Format::q8_0) {
      to = from[column] ^ std::byte{0x80};
      continue;
    }
    const unsigned pair = byte_at(from + column % kHalf);
    const unsigned code = column < kHalf ? pair & 15U : pair >> 4;
    to |= static_cast<std::byte>(is_high(column) ? code << 4 : code);
  }
}

void take_block(Format format, const std::byte* tile, int64_t lane, std::byte* block) {
  std::memcpy(block, tile + 2 * lane, 2);
  if (has_least(format)) std::memcpy(block + 2, tile + 2 * (kGroupRows + lane), 2);
  std::byte* const to = block + tile_codes_at(format) / kGroupRows;
  const std::byte* const codes = tile + tile_codes_at(format);
  if (format != Format::q8_0) std::memset(to, 0, kHalf);
  for (int64_t column = 0; column < kBlockColumns; ++column) {
    const unsigned code = tile_code(format, codes, lane, column);
    if (format == Format::q8_0)
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
}

void from_tiles(Format format, std::span<const std::byte> tiles, int64_t rows, int64_t columns,
                std::span<std::byte> blocks) {
  check_sizes(format, blocks.size(), rows, columns, tiles.size());
  for_each_block(format, rows, columns, [&](int64_t lane, int64_t tile, int64_t block) {
    take_block(format, tiles.data() + tile, lane, blocks.data() + block);
  });
}

void widen_block(const Weight& weight, int64_t row, int64_t block, float* values) {
  const Format format = weight.format;
  const TileRun run = tile_run(format, weight.shape[0], weight.shape[1], row / kGroupRows);
  const int64_t lane = row % kGroupRows;
  const std::byte* const tile = weight.view.data() + run.begin + block * run.step;
  const float scale = half_at(tile + 2 * lane);
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

}  // namespace megalith
