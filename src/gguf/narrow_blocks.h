// SPDX-License-Identifier: Apache-2.0
// 32 values to one block, as llama.cpp's reference rounds them (ggml-quants.c). False, and the
// block is unspecified, where a value is not finite or a scale too large for f16. Where the
// reciprocal of a scale overflows, all codes stand for zero; so they do in blocks of equal values
// of Q4_1, which are its least.
#pragma once

#include <cstddef>

namespace megalith::gguf {

/// Halves between two codes go away from zero.
[[nodiscard]] bool narrow_q8_0(const float* values, std::byte* block);
[[nodiscard]] bool narrow_q4_0(const float* values, std::byte* block);
[[nodiscard]] bool narrow_q4_1(const float* values, std::byte* block);

}  // namespace megalith::gguf
