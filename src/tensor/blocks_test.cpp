// SPDX-License-Identifier: Apache-2.0
#include "tensor/blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace megalith {
namespace {

constexpr Format kFormats[] = {Format::q8_0, Format::q4_0, Format::q4_1};
constexpr Format kAllFormats[] = {Format::q8_0, Format::q4_0, Format::q4_1, Format::fp8};

/// Blocks of bytes that take every value.
std::vector<std::byte> some_blocks(Format format, int64_t rows, int64_t columns) {
  std::vector<std::byte> bytes(static_cast<size_t>(matrix_bytes(format, rows, columns)));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 167 + i / 251 + 13);
  return bytes;
}

std::vector<std::byte> tiles_of(Format format, const std::vector<std::byte>& blocks, int64_t rows,
                                int64_t columns) {
  const Shape stored = stored_shape(format, {rows, columns});
  std::vector<std::byte> tiles(static_cast<size_t>(stored.num_elements()), std::byte{0x5a});
  to_tiles(format, blocks, rows, columns, tiles);
  return tiles;
}

f16_t half_at(const std::byte* at) {
  f16_t half;
  std::memcpy(&half, at, sizeof half);
  return half;
}

/// What the format says of column i of a block.
float stated_value(Format format, const std::byte* block, int64_t i) {
  const auto byte = [&](int64_t at) { return std::to_integer<int>(block[at]); };
  const float d = to_f32(half_at(block));
  if (format == Format::q8_0) return d * static_cast<float>(static_cast<int8_t>(byte(2 + i)));
  const int64_t at = (format == Format::q4_1 ? 4 : 2) + i % 16;
  const auto code = static_cast<float>(i < 16 ? byte(at) & 15 : byte(at) >> 4);
  if (format == Format::q4_0) return d * (code - 8);
  return d * code + to_f32(half_at(block + 2));
}

TEST(Blocks, SizesAreTheFormats) {
  EXPECT_EQ(block_bytes(Format::q8_0), 34);
  EXPECT_EQ(block_bytes(Format::q4_0), 18);
  EXPECT_EQ(block_bytes(Format::q4_1), 20);
  for (const Format format : kFormats) EXPECT_EQ(tile_bytes(format), 16 * block_bytes(format));
}

TEST(Blocks, ComeBackFromTilesByteForByte) {
  for (const Format format : kAllFormats) {
    for (const auto& [rows, columns] : {std::pair{1, 32}, {16, 96}, {37, 64}, {130, 96}, {0, 32}}) {
      const std::vector<std::byte> blocks = some_blocks(format, rows, columns);
      std::vector<std::byte> back(blocks.size(), std::byte{0xa5});
      from_tiles(format, tiles_of(format, blocks, rows, columns), rows, columns, back);
      EXPECT_EQ(back, blocks) << name_of(format) << " " << rows << " rows";
    }
  }
}

TEST(Blocks, EveryValueIsTheFormats) {
  constexpr int64_t kRows = 101, kColumns = 96;
  for (const Format format : kFormats) {
    const std::vector<std::byte> blocks = some_blocks(format, kRows, kColumns);
    const std::vector<std::byte> tiles = tiles_of(format, blocks, kRows, kColumns);
    const Shape shape{kRows, kColumns};
    const Weight weight(ConstView(tiles.data(), DType::u8, stored_shape(format, shape)), format,
                        shape);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        const int64_t block = row * kColumns / 32 + column / 32;
        const float stated =
            stated_value(format, blocks.data() + block * block_bytes(format), column % 32);
        const float value = tile_value(weight, row, column);
        if (std::isnan(stated) && std::isnan(value)) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(stated))
            << name_of(format) << " " << row << " " << column;
      }
    }
  }
}

/// Row by row, step by step: what kernels count on.
TEST(Blocks, LieInTilesAsStated) {
  constexpr int64_t kRows = 4 * 16 + 18, kColumns = 64;
  for (const Format format : kFormats) {
    const std::vector<std::byte> blocks = some_blocks(format, kRows, kColumns);
    const std::vector<std::byte> tiles = tiles_of(format, blocks, kRows, kColumns);
    // Four groups of two blocks before, then those of two groups in turn.
    const int64_t row = 4 * 16 + 17, block = 1, lane = 1;
    const std::byte* tile = tiles.data() + (4 * 2 + block * 2 + 1) * tile_bytes(format);
    const std::byte* from = blocks.data() + (row * 2 + block) * block_bytes(format);
    EXPECT_EQ(half_at(tile + 2 * lane).bits, half_at(from).bits);
    if (has_least(format)) {
      EXPECT_EQ(half_at(tile + 32 + 2 * lane).bits, half_at(from + 2).bits);
    }
    const std::byte* codes = tile + tile_codes_at(format) + lane * 4;
    if (format == Format::q8_0) {
      EXPECT_EQ(codes[3 * 64 + 2] ^ std::byte{0x80}, from[2 + 3 * 4 + 2]);
      continue;
    }
    // Step 2: columns 16 .. 19 below, 20 .. 23 above, all of them high halves in the file.
    const std::byte* of_file = from + (has_least(format) ? 4 : 2);
    for (int j = 0; j < 4; ++j) {
      const int pair = std::to_integer<int>(codes[2 * 64 + j]);
      EXPECT_EQ(pair & 15, std::to_integer<int>(of_file[j]) >> 4);
      EXPECT_EQ(pair >> 4, std::to_integer<int>(of_file[4 + j]) >> 4);
    }
    // Rows after the last are zero.
    EXPECT_EQ(codes[2 * 64 + 4], std::byte{0});
  }
}

/// Codes and the scales of rows behind them all; in a step four rows side by side, pair by pair.
TEST(Blocks, CodesOfFloatsHaveOneScaleForARow) {
  constexpr int64_t kRows = 4 * 16 + 18, kColumns = 64;
  const std::vector<std::byte> matrix = some_blocks(Format::fp8, kRows, kColumns);
  const std::vector<std::byte> tiles = tiles_of(Format::fp8, matrix, kRows, kColumns);
  const Shape shape{kRows, kColumns};
  const Weight weight(ConstView(tiles.data(), DType::u8, stored_shape(Format::fp8, shape)),
                      Format::fp8, shape);
  EXPECT_EQ(std::ssize(matrix), kRows * (kColumns + 4));
  EXPECT_EQ(std::ssize(tiles), 6 * 16 * (kColumns + 4));
  const ConstView scales = row_scales(weight);
  ASSERT_EQ(scales.shape(), Shape{kRows});
  for (int64_t row = 0; row < kRows; ++row) {
    float scale;
    std::memcpy(&scale, matrix.data() + kRows * kColumns + row * 4, sizeof scale);
    EXPECT_EQ(std::bit_cast<uint32_t>(scales.as<float>()[row]), std::bit_cast<uint32_t>(scale));
    for (int64_t column = 0; column < kColumns; ++column) {
      const std::byte code = matrix[static_cast<size_t>(row * kColumns + column)];
      const float number = to_f32(f8_e4m3_t{std::to_integer<uint8_t>(code)});
      const float found = tile_number(weight, row, column), value = tile_value(weight, row, column);
      if (std::isnan(number)) {
        ASSERT_TRUE(std::isnan(found));
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(number));
      if (!std::isnan(scale * number)) {
        ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(scale * number));
      }
    }
  }
  // Row 21 is row 5 of the second group of the first strip: column 38 in its second block.
  const std::byte* tile = tiles.data() + (1 * 4 + 1) * tile_bytes(Format::fp8);
  EXPECT_EQ(tile[1 * 64 + 1 * 16 + 1 * 8 + 1 * 2 + 0], matrix[21 * kColumns + 32 + 4 + 2]);
  EXPECT_FALSE(row_scales(Weight(scales)));
}

TEST(Blocks, SizesThatDoNotFitAreFound) {
  std::vector<std::byte> blocks(3 * 34), tiles(16 * 34);
  EXPECT_THROW(to_tiles(Format::q8_0, blocks, 2, 32, tiles), InternalError);
  EXPECT_THROW(to_tiles(Format::q8_0, blocks, 3, 33, tiles), InternalError);
  EXPECT_THROW(to_tiles(Format::f32, blocks, 3, 32, tiles), InternalError);
  tiles.resize(15 * 34);
  EXPECT_THROW(from_tiles(Format::q8_0, tiles, 3, 32, blocks), InternalError);
}

}  // namespace
}  // namespace megalith
