// SPDX-License-Identifier: Apache-2.0
#include "gguf/narrow_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "tensor/dtype.h"

namespace megalith::gguf {
namespace {

constexpr int kBlock = 32;

float inverse_of(float scale) {
  const float inverse = 1.0F / scale;
  return scale == 0 || std::isinf(inverse) ? 0.0F : inverse;
}

/// False where it would be infinite.
bool store_half(float value, std::byte* at) {
  const f16_t half = to_f16(value);
  std::memcpy(at, &half, sizeof half);
  return std::isfinite(to_f32(half));
}

/// Two codes a byte: element i in the low half, element i + 16 in the high one.
template <typename Code>
void store_codes(std::byte* at, const Code& code) {
  for (int i = 0; i < kBlock / 2; ++i) {
    const unsigned low = std::min(code(i), 15U), high = std::min(code(i + kBlock / 2), 15U);
    at[i] = static_cast<std::byte>(low | high << 4);
  }
}

bool are_finite(const float* values) {
  return std::all_of(values, values + kBlock, [](float value) { return std::isfinite(value); });
}

}  // namespace

bool narrow_q8_0(const float* values, std::byte* block) {
  if (!are_finite(values)) return false;
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest / 127.0F, inverse = inverse_of(scale);
  for (int i = 0; i < kBlock; ++i)
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(values[i] * inverse)));
  return store_half(scale, block);
}

bool narrow_q4_0(const float* values, std::byte* block) {
  if (!are_finite(values)) return false;
  // The value of the largest magnitude, the first of equals, becomes code 0: -8 times the scale.
  const float largest = *std::max_element(
      values, values + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float scale = largest / -8.0F, inverse = inverse_of(scale);
  store_codes(block + 2, [&](int i) { return static_cast<unsigned>(values[i] * inverse + 8.5F); });
  return store_half(scale, block);
}

bool narrow_q4_1(const float* values, std::byte* block) {
  if (!are_finite(values)) return false;
  const auto ends = std::minmax_element(values, values + kBlock);
  const float least = *ends.first, scale = (*ends.second - least) / 15.0F;
  if (!std::isfinite(scale)) return false;
  const float inverse = inverse_of(scale);
  store_codes(block + 4,
              [&](int i) { return static_cast<unsigned>((values[i] - least) * inverse + 0.5F); });
  const bool has_scale = store_half(scale, block);
  return store_half(least, block + 2) && has_scale;
}

}  // namespace megalith::gguf
