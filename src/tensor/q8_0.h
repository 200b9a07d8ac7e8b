// SPDX-License-Identifier: Apache-2.0
// q8_0, the 8-bit block format of GGUF: 32 neighbours of a row share a scale d, and each is an
// integer code in [-128, 127]; its value is d * code. A file stores blocks of 34 bytes, the scale
// (f16, little endian) before its codes. Kernels read two arrays, all codes [rows, columns] and all
// scales [rows, columns / 32], so that both lie aligned; the bits are the file's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace megalith {

inline constexpr int64_t kQ8BlockCodes = 32;
inline constexpr int64_t kQ8BlockBytes = 34;

/// The blocks of a file as the two arrays, and back, bit for bit. Sizes must fit each other.
void unpack_q8_0(std::span<const std::byte> blocks, std::span<int8_t> codes,
                 std::span<f16_t> scales);
void pack_q8_0(std::span<const int8_t> codes, std::span<const f16_t> scales,
               std::span<std::byte> blocks);

/// Quantises whole blocks as llama.cpp's reference does: with d = max |x| / 127 in f32, a code is
/// x * (1 / d) rounded to nearest, halves away from zero; the scale stored is d rounded to f16.
/// Where 1 / d overflows (the stored scale is 0 then) codes are 0. False, and the output is
/// unspecified, where a number is not finite or a scale too large for f16.
[[nodiscard]] bool quantize_q8_0(std::span<const float> values, std::span<int8_t> codes,
                                 std::span<f16_t> scales);
[[nodiscard]] bool quantize_q8_0(std::span<const bf16_t> values, std::span<int8_t> codes,
                                 std::span<f16_t> scales);

/// The values of whole blocks; exact in f32.
void dequantize_q8_0(std::span<const int8_t> codes, std::span<const f16_t> scales,
                     std::span<float> values);

}  // namespace megalith
