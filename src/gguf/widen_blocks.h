// SPDX-License-Identifier: Apache-2.0
// One block of each format to its values: 32 of the formats with a digit behind the line, 256 of
// those with a K.
#pragma once

#include <cstddef>
#include <cstring>

#include "tensor/dtype.h"

namespace megalith::gguf {

/// A number of 16 bits at a byte of a block.
inline float half_at(const std::byte* block, int at) {
  f16_t value;
  std::memcpy(&value, block + at, sizeof value);
  return to_f32(value);
}

void widen_q4_0(const std::byte* block, float* values);
void widen_q4_1(const std::byte* block, float* values);
void widen_q5_0(const std::byte* block, float* values);
void widen_q5_1(const std::byte* block, float* values);
void widen_q8_0(const std::byte* block, float* values);

void widen_q2_k(const std::byte* block, float* values);
void widen_q3_k(const std::byte* block, float* values);
void widen_q4_k(const std::byte* block, float* values);
void widen_q5_k(const std::byte* block, float* values);
void widen_q6_k(const std::byte* block, float* values);

}  // namespace megalith::gguf
