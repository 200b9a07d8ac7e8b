// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace megalith::report {

/// "512 B", "1.50 KiB", "1000 MiB", "2.00 GiB": three significant digits.
std::string human_bytes(int64_t bytes);
/// "950", "12.3 k", "124 M", "1.02 B" (10^9).
std::string human_count(double count);
/// "0.42 s", "12.3 s", "3 min 52 s", "5 h 07 min", "2 d 03 h".
std::string human_seconds(double seconds);
/// "1,234,567".
std::string grouped(int64_t value);

}  // namespace megalith::report
