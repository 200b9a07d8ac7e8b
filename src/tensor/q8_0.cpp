// SPDX-License-Identifier: Apache-2.0
#include "tensor/q8_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace megalith {
namespace {

void check_sizes(size_t codes, size_t scales) {
  MEGA_CHECK(codes == scales * kQ8BlockCodes, "{} codes with {} scales", codes, scales);
}

void check_sizes(size_t blocks, size_t codes, size_t scales) {
  check_sizes(codes, scales);
  MEGA_CHECK(blocks == scales * kQ8BlockBytes, "{} bytes of blocks with {} scales", blocks, scales);
}

template <typename T>
bool quantize(std::span<const T> values, std::span<int8_t> codes, std::span<f16_t> scales) {
  check_sizes(codes.size(), scales.size());
  MEGA_CHECK_EQ(values.size(), codes.size());
  for (size_t b = 0; b < scales.size(); ++b) {
    const auto block = values.subspan(b * kQ8BlockCodes, kQ8BlockCodes);
    float largest = 0;
    for (const T value : block) {
      const float magnitude = std::fabs(to_f32(value));
      if (!std::isfinite(magnitude)) return false;
      largest = std::max(largest, magnitude);
    }
    const float scale = largest / 127.0f;
    const float inverse = 1.0f / scale;
    scales[b] = to_f16(scale);
    if (std::isinf(to_f32(scales[b]))) return false;
    for (size_t i = 0; i < block.size(); ++i)
      codes[b * kQ8BlockCodes + i] =
          std::isinf(inverse) ? int8_t{0}
                              : static_cast<int8_t>(std::round(to_f32(block[i]) * inverse));
  }
  return true;
}

}  // namespace

void unpack_q8_0(std::span<const std::byte> blocks, std::span<int8_t> codes,
                 std::span<f16_t> scales) {
  check_sizes(blocks.size(), codes.size(), scales.size());
  for (size_t b = 0; b < scales.size(); ++b) {
    const std::byte* from = blocks.data() + b * kQ8BlockBytes;
    scales[b].bits = static_cast<uint16_t>(std::to_integer<unsigned>(from[0]) |
                                           std::to_integer<unsigned>(from[1]) << 8);
    std::memcpy(&codes[b * kQ8BlockCodes], from + 2, kQ8BlockCodes);
  }
}

void pack_q8_0(std::span<const int8_t> codes, std::span<const f16_t> scales,
               std::span<std::byte> blocks) {
  check_sizes(blocks.size(), codes.size(), scales.size());
  for (size_t b = 0; b < scales.size(); ++b) {
    std::byte* to = blocks.data() + b * kQ8BlockBytes;
    to[0] = static_cast<std::byte>(scales[b].bits & 0xff);
    to[1] = static_cast<std::byte>(scales[b].bits >> 8);
    std::memcpy(to + 2, &codes[b * kQ8BlockCodes], kQ8BlockCodes);
  }
}

bool quantize_q8_0(std::span<const float> values, std::span<int8_t> codes,
                   std::span<f16_t> scales) {
  return quantize(values, codes, scales);
}
bool quantize_q8_0(std::span<const bf16_t> values, std::span<int8_t> codes,
                   std::span<f16_t> scales) {
  return quantize(values, codes, scales);
}

void dequantize_q8_0(std::span<const int8_t> codes, std::span<const f16_t> scales,
                     std::span<float> values) {
  check_sizes(codes.size(), scales.size());
  MEGA_CHECK_EQ(values.size(), codes.size());
  for (size_t b = 0; b < scales.size(); ++b) {
    const float scale = to_f32(scales[b]);
    for (size_t i = b * kQ8BlockCodes; i < (b + 1) * kQ8BlockCodes; ++i)
      values[i] = scale * static_cast<float>(codes[i]);
  }
}

}  // namespace megalith
