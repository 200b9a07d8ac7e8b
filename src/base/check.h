// SPDX-License-Identifier: Apache-2.0
// Checks of the program's own promises. They stay on in release builds; none is inside an inner
// loop. A mistake that a user can make is a `UserError`, never a failed check.
#pragma once

#include "base/error.h"

namespace megalith::detail {
[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      const std::string& values) {
  throw InternalError(fmt::format("{}:{}: check failed: {}{}{}", file, line, condition,
                                  values.empty() ? "" : ": ", values));
}
}  // namespace megalith::detail

/// MEGA_CHECK(condition) or MEGA_CHECK(condition, "format {}", value).
#define MEGA_CHECK(condition, ...)                                     \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::megalith::detail::check_failed(__FILE__, __LINE__, #condition, \
                                       ::fmt::format("" __VA_ARGS__)); \
  } while (false)

#define MEGA_CHECK_COMPARE_(a, op, b)                                                     \
  do {                                                                                    \
    const auto& mega_a_ = (a);                                                            \
    const auto& mega_b_ = (b);                                                            \
    if (!(mega_a_ op mega_b_)) [[unlikely]]                                               \
      ::megalith::detail::check_failed(__FILE__, __LINE__, #a " " #op " " #b,             \
                                       ::fmt::format("{} against {}", mega_a_, mega_b_)); \
  } while (false)

#define MEGA_CHECK_EQ(a, b) MEGA_CHECK_COMPARE_(a, ==, b)
#define MEGA_CHECK_NE(a, b) MEGA_CHECK_COMPARE_(a, !=, b)
#define MEGA_CHECK_LT(a, b) MEGA_CHECK_COMPARE_(a, <, b)
#define MEGA_CHECK_LE(a, b) MEGA_CHECK_COMPARE_(a, <=, b)
#define MEGA_CHECK_GT(a, b) MEGA_CHECK_COMPARE_(a, >, b)
#define MEGA_CHECK_GE(a, b) MEGA_CHECK_COMPARE_(a, >=, b)
