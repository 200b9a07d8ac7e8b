// SPDX-License-Identifier: Apache-2.0
// The two bytes of the bf16 number that a code of e4m3 without its sign is, for look-ups.
#pragma once

#include <bit>
#include <cstdint>

namespace megalith::kernels::matmul {

/// Bits of the number of code 0 to 127 (tensor/dtype.h: exponents from -6 on, three bits of
/// mantissa, denormals, 127 not a number).
constexpr uint16_t bf16_of_code(unsigned code) {
  constexpr unsigned kBias = 127 - 7;
  if (code == 0) return 0;
  if (code == 127) return 0x7fc0;
  if (code >= 8) return static_cast<uint16_t>((code << 4) + (kBias << 7));
  const auto first =
      static_cast<unsigned>(std::bit_width(code)) - 1;  // its number is 2^(first - 9)
  return static_cast<uint16_t>(((127 - 9 + first) << 7) + ((code << (7 - first)) & 0x7fU));
}

struct CodeBytes {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
};
inline constexpr CodeBytes kCodeBytes = [] {
  CodeBytes bytes{};
  for (unsigned code = 0; code < 128; ++code) {
    bytes.low[code] = static_cast<uint8_t>(bf16_of_code(code));
    bytes.high[code] = static_cast<uint8_t>(bf16_of_code(code) >> 8);
  }
  return bytes;
}();

}  // namespace megalith::kernels::matmul
