// SPDX-License-Identifier: Apache-2.0
// Weights in blocks, as GGUF stores them: 32 neighbours of a row share a scale d (f16), in q4_1
// also a least value m (f16), and each is an integer code:
//     q8_0   d * code          code in [-128, 127], a byte
//     q4_0   d * (code - 8)    code in [0, 15], half a byte
//     q4_1   d * code + m
// in f32, rounded once (only the sum of q4_1 needs it). A file stores block after block of a row:
// scale, least value, codes; of two codes in a byte the low half is number i, the high half number
// i + 16 (gguf/widen_blocks.cpp).
//
// Kernels read the same bits in another order: groups of 16 rows, of each a *tile* for every block
// of columns, rows side by side in a vector; the tiles of four groups (fewer at the end) alternate,
// so that a product of four chains of vectors reads memory once and in order:
//     scales [16 rows], least values [16 rows] where there are some, then
//     q8_0   [8][16 rows][4]   byte j of step s: column 4s + j, as code + 128
//     q4     [4][16 rows][4]   byte j of step s: column 8s + j in its low half, 8s + 4 + j above
// The rows after the last, up to a whole group, are bytes of zero.
//
// `fp8` has codes e4m3 (dtype.h) in the same tiles, and one f32 scale for a row instead:
//     scale * code
// A file (or who makes one) has all codes row by row, and then the scales. Behind all tiles come
// the scales of all rows of the groups. In a tile 8 bytes are two columns of four rows, of which
// interleaving the low and the high bytes of the codes' numbers makes four words of bf16:
//     fp8    [8][4 times 4 rows][2][4 rows][2]   column 4s + 2p + j of row 4q + r: [s][q][p][r][j]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/integer.h"
#include "tensor/weight.h"

namespace megalith {

inline constexpr int64_t kBlockColumns = 32;
inline constexpr int64_t kGroupRows = 16;
/// Codes of fp8 that kernels take at a time: shards of the columns are whole numbers of them.
inline constexpr int64_t kCodeColumns = 4;

constexpr bool has_least(Format format) { return format == Format::q4_1; }
/// True if codes have 8 bits.
constexpr bool has_bytes(Format format) { return format == Format::q8_0 || format == Format::fp8; }
/// Of the scale that a row has beside its blocks.
constexpr int64_t row_scale_bytes(Format format) { return format == Format::fp8 ? 4 : 0; }
/// Bytes of scales, and of least values, before the codes of a tile.
constexpr int64_t tile_codes_at(Format format) {
  return format == Format::fp8 ? 0 : has_least(format) ? 64 : 32;
}
/// Of a block: in a file, and of each row of a tile.
constexpr int64_t block_bytes(Format format) {
  return tile_codes_at(format) / kGroupRows + (has_bytes(format) ? 32 : 16);
}
/// Of a matrix in a file's order.
constexpr int64_t matrix_bytes(Format format, int64_t rows, int64_t columns) {
  return rows * (columns / kBlockColumns * block_bytes(format) + row_scale_bytes(format));
}
constexpr int64_t tile_bytes(Format format) { return kGroupRows * block_bytes(format); }
/// Of all columns of a group of rows; columns are whole blocks.
constexpr int64_t group_bytes(Format format, int64_t columns) {
  return columns / kBlockColumns * tile_bytes(format);
}
constexpr int64_t num_groups(int64_t rows) { return ceil_div(rows, kGroupRows); }

/// Groups whose tiles alternate.
inline constexpr int64_t kStripGroups = 4;
/// Where the tiles of a group lie: the first, and how far from there the next block's.
struct TileRun {
  int64_t begin = 0;  // bytes
  int64_t step = 0;
};
constexpr TileRun tile_run(Format format, int64_t rows, int64_t columns, int64_t group) {
  const int64_t first = group / kStripGroups * kStripGroups;
  const int64_t left = num_groups(rows) - first;
  return {first * group_bytes(format, columns) + group % kStripGroups * tile_bytes(format),
          (left < kStripGroups ? left : kStripGroups) * tile_bytes(format)};
}

/// The blocks of `rows` rows in a file's order as tiles, and back, bit for bit. `blocks` has
/// matrix_bytes(), `tiles` the bytes of stored_shape(); sizes must fit.
void to_tiles(Format format, std::span<const std::byte> blocks, int64_t rows, int64_t columns,
              std::span<std::byte> tiles);
void from_tiles(Format format, std::span<const std::byte> tiles, int64_t rows, int64_t columns,
                std::span<std::byte> blocks);

/// Columns [32 block, 32 block + 32) of a row of a weight in blocks, as f32. Its view must be of
/// host memory.
void widen_block(const Weight& weight, int64_t row, int64_t block, float* values);
/// One value.
float tile_value(const Weight& weight, int64_t row, int64_t column);

/// Of a weight in fp8: what multiplies the codes of each row, f32 [rows]; and one code's number.
/// Of other weights absent.
ConstView row_scales(const Weight& weight);
float tile_number(const Weight& weight, int64_t row, int64_t column);

}  // namespace megalith
