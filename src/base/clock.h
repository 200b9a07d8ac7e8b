// SPDX-License-Identifier: Apache-2.0
// Monotonic time in seconds (never jumps) and wall time for records.
#pragma once

#include <chrono>
#include <string>

namespace megalith {

inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// Seconds since 1970.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
/// "2026-01-31T12:34:56Z"
std::string iso_time(double wall);

}  // namespace megalith
