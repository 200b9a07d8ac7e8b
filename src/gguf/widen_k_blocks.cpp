// SPDX-License-Identifier: Apache-2.0
// Blocks of 256 elements in groups of 16 or 32: the block has a scale (f16) for the scales of its
// groups, which are small integers, and in Q2_K, Q4_K and Q5_K another for their least values.
// Codes of several bits are cut into planes: a plane's byte holds those bits of elements that lie
// 32 (Q6_K's low bits: 64) apart.
#include <cstdint>

#include "gguf/widen_blocks.h"

namespace megalith::gguf {
namespace {

constexpr int kElements = 256;

int byte_at(const std::byte* block, int at) { return std::to_integer<int>(block[at]); }

/// Bits [2 k, 2 k + 2) of byte j, for element 128 h + 32 k + j of the half h whose 32 bytes begin
/// at `plane`.
int two_bits(const std::byte* plane, int i) {
  return byte_at(plane, i / 128 * 32 + i % 32) >> (2 * (i / 32 % 4)) & 3;
}

/// Bit k of byte j, for element 32 k + j.
int one_bit(const std::byte* plane, int i) { return byte_at(plane, i % 32) >> (i / 32) & 1; }

/// Half k of byte j, for element 64 g + 32 k + j of the group g of 32 bytes.
int four_bits(const std::byte* plane, int i) {
  return byte_at(plane, i / 64 * 32 + i % 32) >> (4 * (i / 32 % 2)) & 15;
}

/// The 6-bit scale and least value of a group of 32, of Q4_K and Q5_K: those of groups 0 to 3 stand
/// in the low bits of bytes 0 to 3 and 4 to 7; of groups 4 to 7 the low 4 bits in bytes 8 to 11,
/// the high 2 above those of groups 0 to 3.
struct GroupScale {
  float scale, least;
};
GroupScale group_scale(const std::byte* packed, int group) {
  if (group < 4) {
    return {static_cast<float>(byte_at(packed, group) & 63),
            static_cast<float>(byte_at(packed, group + 4) & 63)};
  }
  const int low = byte_at(packed, group + 4);
  return {static_cast<float>((low & 15) | byte_at(packed, group - 4) >> 6 << 4),
          static_cast<float>(low >> 4 | byte_at(packed, group) >> 6 << 4)};
}

/// The 6-bit scale of a group of 16 of Q3_K: the low 4 bits of groups 0 to 7 are the low halves of
/// bytes 0 to 7, of groups 8 to 15 the high halves; bytes 8 to 11 hold the high 2 bits, those of
/// group g in byte g % 4.
int q3_scale(const std::byte* packed, int group) {
  const int low = byte_at(packed, group % 8) >> (4 * (group / 8)) & 15;
  const int high = byte_at(packed, 8 + group % 4) >> (2 * (group / 4)) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

// scales[16], codes of 2 bits[64], d, the scale of least values
void widen_q2_k(const std::byte* block, float* values) {
  const float d = half_at(block, 80), d_least = half_at(block, 82);
  for (int i = 0; i < kElements; ++i) {
    const int packed = byte_at(block, i / 16);
    const float scale = d * static_cast<float>(packed & 15);
    const float least = d_least * static_cast<float>(packed >> 4);
    values[i] = scale * static_cast<float>(two_bits(block + 16, i)) - least;
  }
}

// third bits[32], codes of 2 bits[64], scales[12], d; a code without its third bit is 4 less
void widen_q3_k(const std::byte* block, float* values) {
  const float d = half_at(block, 108);
  for (int i = 0; i < kElements; ++i) {
    const float scale = d * static_cast<float>(q3_scale(block + 96, i / 16));
    const int code = two_bits(block + 32, i) - (one_bit(block, i) == 0 ? 4 : 0);
    values[i] = scale * static_cast<float>(code);
  }
}

// d, the scale of least values, scales[12], codes of 4 bits[128]
void widen_q4_k(const std::byte* block, float* values) {
  const float d = half_at(block, 0), d_least = half_at(block, 2);
  for (int i = 0; i < kElements; ++i) {
    const GroupScale group = group_scale(block + 4, i / 32);
    values[i] =
        d * group.scale * static_cast<float>(four_bits(block + 16, i)) - d_least * group.least;
  }
}

// d, the scale of least values, scales[12], fifth bits[32], codes of 4 bits[128]
void widen_q5_k(const std::byte* block, float* values) {
  const float d = half_at(block, 0), d_least = half_at(block, 2);
  for (int i = 0; i < kElements; ++i) {
    const GroupScale group = group_scale(block + 4, i / 32);
    const int code = four_bits(block + 48, i) | one_bit(block + 16, i) << 4;
    values[i] = d * group.scale * static_cast<float>(code) - d_least * group.least;
  }
}

// low 4 bits[128], high 2 bits[64], scales[16] (signed), d
void widen_q6_k(const std::byte* block, float* values) {
  const float d = half_at(block, 208);
  for (int i = 0; i < kElements; ++i) {
    const auto scale = static_cast<int8_t>(block[192 + i / 16]);
    const int half = i / 128, j = i % 64;
    const int low = byte_at(block, half * 64 + j) >> (4 * (i / 64 % 2)) & 15;
    const int code = (low | two_bits(block + 128, i) << 4) - 32;
    values[i] = d * static_cast<float>(scale) * static_cast<float>(code);
  }
}

}  // namespace megalith::gguf
