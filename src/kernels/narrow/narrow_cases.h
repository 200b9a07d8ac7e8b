// SPDX-License-Identifier: Apache-2.0
// Numbers on which conversions differ if anything about them does, for tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace megalith::kernels {

/// f32 number i of an endless list: all signs and exponents about those of 8 bits, infinities, NaN,
/// zeros, denormals, and every tie between codes of two and three bits of mantissa with both its
/// neighbours.
inline float narrow_number(int64_t i) {
  const auto n = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
  const auto pick = static_cast<uint32_t>(n >> 60);
  const auto low = static_cast<uint32_t>(n >> 20);
  const uint32_t sign = low & 0x80000000u;
  const uint32_t exponent = 96 + (low >> 8) % 64;  // 2^-31 to 2^32
  switch (pick) {
    case 0: {
      constexpr uint32_t kSpecial[] = {0,          1,          0x7fffff,   0x800000,
                                       0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f800001};
      return std::bit_cast<float>(sign | kSpecial[low % 8]);
    }
    case 1:
    case 2:
    case 3:
    case 4: {  // bits of mantissa that end in a half of a place kept, and one more or less
      const uint32_t kept = pick % 2 == 0 ? 20 : 21;
      const uint32_t tie = ((low & 7u) << kept | 1u << (kept - 1)) & 0x7fffffu;
      const uint32_t magnitude = exponent << 23 | tie;
      return std::bit_cast<float>(sign | (magnitude + (low >> 4) % 3 - 1));
    }
    default:
      return std::bit_cast<float>(sign | exponent << 23 | (low & 0x7fffffu));
  }
}

}  // namespace megalith::kernels
