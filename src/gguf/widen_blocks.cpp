// SPDX-License-Identifier: Apache-2.0
// Blocks of 32 elements: a scale d (f16), in the formats that end in 1 also a least value m (f16),
// then codes. A code of 4 bits is the low half of a byte for element i < 16, the high half of the
// same byte for element i + 16; the fifth bits of all stand together before them.
#include "gguf/widen_blocks.h"

#include <cstdint>
#include <cstring>

namespace megalith::gguf {
namespace {

constexpr int kHalf = 16;

/// The 32 codes of 4 bits at `from`, with the bits of `fifth` above them, less `zero`.
template <typename Use>
void for_each_code(const std::byte* from, uint32_t fifth, int zero, const Use& use) {
  for (int i = 0; i < kHalf; ++i) {
    const int byte = std::to_integer<int>(from[i]);
    const int low = (byte & 15) | static_cast<int>(fifth >> i & 1) << 4;
    const int high = byte >> 4 | static_cast<int>(fifth >> (i + kHalf) & 1) << 4;
    use(i, static_cast<float>(low - zero));
    use(i + kHalf, static_cast<float>(high - zero));
  }
}

uint32_t word_at(const std::byte* block, int at) {
  uint32_t word = 0;
  std::memcpy(&word, block + at, sizeof word);
  return word;
}

}  // namespace

void widen_q4_0(const std::byte* block, float* values) {
  const float d = half_at(block, 0);
  for_each_code(block + 2, 0, 8, [&](int i, float code) { values[i] = d * code; });
}

void widen_q4_1(const std::byte* block, float* values) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  for_each_code(block + 4, 0, 0, [&](int i, float code) { values[i] = d * code + m; });
}

void widen_q5_0(const std::byte* block, float* values) {
  const float d = half_at(block, 0);
  for_each_code(block + 6, word_at(block, 2), 16, [&](int i, float code) { values[i] = d * code; });
}

void widen_q5_1(const std::byte* block, float* values) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  for_each_code(block + 8, word_at(block, 4), 0,
                [&](int i, float code) { values[i] = d * code + m; });
}

void widen_q8_0(const std::byte* block, float* values) {
  const float d = half_at(block, 0);
  for (int i = 0; i < 2 * kHalf; ++i)
    values[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

}  // namespace megalith::gguf
