// SPDX-License-Identifier: Apache-2.0
#include "math/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace megalith {
namespace {

constexpr CoreOperand kF32{23, -126};
constexpr int kNone = std::numeric_limits<int>::min();

/// x = significand * 2^(exponent - mantissa_bits), the exponent that alignment sees.
struct Parts {
  int64_t significand;
  int exponent;
};
Parts parts_of(float x, CoreOperand type) {
  if (x == 0) return {0, type.least_exponent};
  const int exponent = std::max(std::ilogb(x), type.least_exponent);
  return {static_cast<int64_t>(std::ldexp(static_cast<double>(x), type.mantissa_bits - exponent)),
          exponent};
}

/// value * 2^shift, cut off towards zero.
int64_t shifted(int64_t value, int shift) {
  if (shift >= 0) return value * (int64_t{1} << shift);
  if (shift <= -63) return 0;
  const int64_t magnitude = std::abs(value) >> -shift;
  return value < 0 ? -magnitude : magnitude;
}

/// total * 2^scale as f32 with `bits` of mantissa, cut off towards zero.
float cut_off(int64_t total, int scale, int bits) {
  const auto magnitude = static_cast<uint64_t>(std::abs(total));
  if (magnitude == 0) return 0;
  const int length = 64 - std::countl_zero(magnitude);
  // The last place kept: `bits` below the first, or what f32's denormals end with.
  const int dropped = std::max({length - bits - 1, -149 - scale, 0});
  const uint64_t kept = dropped > 63 ? 0 : magnitude >> dropped << dropped;
  const double value = std::ldexp(static_cast<double>(kept), scale);  // below 2^53: exact
  const float result = value > static_cast<double>(std::numeric_limits<float>::max())
                           ? std::numeric_limits<float>::infinity()
                           : static_cast<float>(value);
  return total < 0 && result != 0 ? -result : result;
}

/// What decides the sum if any term is not finite.
struct Specials {
  bool nan = false, up = false, down = false;

  void add(float term) {
    nan |= std::isnan(term);
    up |= term > 0 && std::isinf(term);
    down |= term < 0 && std::isinf(term);
  }
  bool any() const { return nan || up || down; }
  float sum() const {
    if (nan || (up && down)) return std::bit_cast<float>(0x7fffffffu);
    return up ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  }
};

}  // namespace

float core_sum(std::span<const float> a, CoreOperand a_type, std::span<const float> b,
               CoreOperand b_type, float sum, CoreSum how) {
  Specials specials;
  specials.add(sum);
  const Parts start = parts_of(std::isfinite(sum) ? sum : 0, kF32);
  int largest = start.significand == 0 ? kNone : start.exponent;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      specials.add(a[i] * b[i]);
    } else if (a[i] != 0 && b[i] != 0) {
      largest =
          std::max(largest, parts_of(a[i], a_type).exponent + parts_of(b[i], b_type).exponent);
    }
  }
  if (specials.any()) return specials.sum();
  if (largest == kNone) return 0;
  const int scale = largest - how.kept_bits;  // of a unit of the sum
  int64_t total = shifted(start.significand, start.exponent - kF32.mantissa_bits - scale);
  for (size_t i = 0; i < a.size(); ++i) {
    const Parts x = parts_of(a[i], a_type), y = parts_of(b[i], b_type);
    const int exponent = x.exponent + y.exponent - a_type.mantissa_bits - b_type.mantissa_bits;
    if (x.significand != 0 && y.significand != 0)
      total += shifted(x.significand * y.significand, exponent - scale);
  }
  return cut_off(total, scale, how.result_bits);
}

float core_dot(std::span<const float> a, CoreOperand a_type, std::span<const float> b,
               CoreOperand b_type, CoreSum how, int64_t promote) {
  const size_t group = static_cast<size_t>(how.group);
  float sum = 0, promoted = 0;
  for (size_t i = 0; i < a.size(); i += group) {
    const size_t count = std::min(group, a.size() - i);
    sum = core_sum(a.subspan(i, count), a_type, b.subspan(i, count), b_type, sum, how);
    const bool whole = promote > 0 && static_cast<int64_t>(i + group) % promote == 0;
    if (!whole) continue;
    promoted += sum;
    sum = 0;
  }
  return promote > 0 ? promoted + sum : sum;
}

}  // namespace megalith
