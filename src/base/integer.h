// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic that never overflows silently. Sizes from files go through the checked forms
// before anything is allocated.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"

namespace megalith {

/// a * b, a + b, or nothing if the result does not fit.
constexpr std::optional<int64_t> checked_multiply(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
constexpr std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return static_cast<T>((a + b - 1) / b);
}
template <std::integral T>
constexpr T round_up(T a, T multiple) {
  return static_cast<T>(ceil_div(a, multiple) * multiple);
}

constexpr bool divides(int64_t divisor, int64_t value) {
  return divisor >= 1 && value % divisor == 0;
}
/// a / b; checks that b divides a.
template <std::integral T>
constexpr T exact_div(T a, T b) {
  MEGA_CHECK(b != 0 && a % b == 0, "{} is not a multiple of {}", a, b);
  return static_cast<T>(a / b);
}

/// Conversion that checks the value fits.
template <std::integral To, std::integral From>
constexpr To narrow(From value) {
  MEGA_CHECK(std::in_range<To>(value), "{} does not fit its type", value);
  return static_cast<To>(value);
}

}  // namespace megalith
