// SPDX-License-Identifier: Apache-2.0
// A matrix of bytes turned, eight by eight in registers. For tiles that are in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace megalith::kernels {

/// Squares of kSide x kSide bytes change places across the diagonal of squares twice as large.
template <int kSide>
inline void swap_squares(uint64_t (&rows)[8], uint64_t mask) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    if ((i & kSide) != 0) continue;
    const uint64_t change = ((rows[i] >> (8 * kSide)) ^ rows[i + kSide]) & mask;
    rows[i] ^= change << (8 * kSide);
    rows[i + kSide] ^= change;
  }
}
/// Eight rows of eight bytes, in place: byte j of row i becomes byte i of row j.
inline void transpose_8x8(uint64_t (&rows)[8]) {
  swap_squares<4>(rows, 0x00000000ffffffffu);
  swap_squares<2>(rows, 0x0000ffff0000ffffu);
  swap_squares<1>(rows, 0x00ff00ff00ff00ffu);
}

/// to[c * to_stride + r] = from[r * from_stride + c] for r and c below 8.
inline void transpose_square(const std::byte* from, int64_t from_stride, std::byte* to,
                             int64_t to_stride) {
  uint64_t square[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) std::memcpy(&square[i], from + i * from_stride, 8);
  transpose_8x8(square);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * to_stride, &square[i], 8);
}

/// The same for r < rows and c < columns. 64 x 64 bytes are turned in a buffer of their own, which
/// then goes out in whole lines of the cache: rows of `to` compete for the same few places of it
/// when their distance is a power of two, as it likes to be.
inline void transpose_bytes(const std::byte* from, int64_t from_stride, std::byte* to,
                            int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 64;
  const int64_t tall = rows / kSide * kSide, wide = columns / kSide * kSide;
  alignas(64) std::byte turned[kSide * kSide];
  for (int64_t row = 0; row < tall; row += kSide) {
    for (int64_t column = 0; column < wide; column += kSide) {
      for (int64_t r = 0; r < kSide; r += 8) {
        for (int64_t c = 0; c < kSide; c += 8) {
          transpose_square(from + (row + r) * from_stride + column + c, from_stride,
                           turned + c * kSide + r, kSide);
        }
      }
      for (int64_t c = 0; c < kSide; ++c) {
        std::memcpy(to + (column + c) * to_stride + row, turned + c * kSide, kSide);
      }
    }
  }
  const auto one_by_one = [&](int64_t first_row, int64_t first_column, int64_t end_column) {
    for (int64_t c = first_column; c < end_column; ++c) {
      for (int64_t r = first_row; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
    }
  };
  one_by_one(tall, 0, wide);
  one_by_one(0, wide, columns);
}

}  // namespace megalith::kernels
