// SPDX-License-Identifier: Apache-2.0
// std::to_chars in hexadecimal, which knows no locale and writes the shortest exact form; it leaves
// out the "0x", which C and Python expect.
#include "report/hex_float.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace megalith::report {

std::string hex_float(double value) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "inf";
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                                          std::chars_format::hex);
  MEGA_CHECK(error == std::errc());
  return sign + "0x" + std::string(text.data(), end);
}

std::optional<double> parse_hex_float(std::string_view text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  double magnitude = std::numeric_limits<double>::infinity();
  if (text != "inf") {
    if (!text.starts_with("0x") || text.starts_with("0x-")) return std::nullopt;
    text.remove_prefix(2);
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, magnitude, std::chars_format::hex);
    if (error != std::errc() || end != last || !std::isfinite(magnitude)) return std::nullopt;
  }
  return negative ? -magnitude : magnitude;
}

}  // namespace megalith::report
