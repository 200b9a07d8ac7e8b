// SPDX-License-Identifier: Apache-2.0
// Rounding is done before the unit is chosen, so that no "1024 KiB" or "60 s" comes out.
#include "report/quantity.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace megalith::report {

namespace {

/// Three significant digits of a value in [0, `base`), or nothing if it rounds up to `base`.
std::string three_digits(double value, double base) {
  std::string text = fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
  return std::stod(text) >= base ? "" : text;
}

template <size_t N>
std::string scaled(double value, double base, const std::array<std::string_view, N>& units) {
  for (size_t i = 0; i < N; ++i, value /= base) {
    const double limit = i + 1 == N ? INFINITY : base;
    std::string text = i == 0 ? fmt::format("{:.0f}", value) : three_digits(value, limit);
    if (i == 0 && std::stod(text) >= limit) text.clear();
    if (!text.empty()) return units[i].empty() ? text : fmt::format("{} {}", text, units[i]);
  }
  return "";
}

}  // namespace

std::string human_bytes(int64_t bytes) {
  static constexpr std::array<std::string_view, 6> kUnits = {"B",   "KiB", "MiB",
                                                             "GiB", "TiB", "PiB"};
  return fmt::format("{}{}", bytes < 0 ? "-" : "",
                     scaled(std::abs(static_cast<double>(bytes)), 1024, kUnits));
}

std::string human_count(double count) {
  if (!std::isfinite(count)) return "unknown";
  static constexpr std::array<std::string_view, 5> kUnits = {"", "k", "M", "B", "T"};
  return fmt::format("{}{}", count < 0 ? "-" : "", scaled(std::abs(count), 1000, kUnits));
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "unknown";
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02d} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return fmt::format("{} h {:02d} min", minutes / 60, minutes % 60);
  const int64_t hours = (minutes + 30) / 60;
  return fmt::format("{} d {:02d} h", hours / 24, hours % 24);
}

std::string grouped(int64_t value) {
  std::string text = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = text.size(); i > first + 3;) text.insert(i -= 3, 1, ',');
  return text;
}

}  // namespace megalith::report
