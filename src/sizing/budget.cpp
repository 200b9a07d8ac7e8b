// SPDX-License-Identifier: Apache-2.0
#include "sizing/budget.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace megalith::sizing {

void check(const Budget& b) {
  const auto require = [](double value, double most, const char* option, const char* unit) {
    if (!(value > 0 && value <= most))
      throw UserError("{} is {}; give a number of {} above 0, at most {}", option, value, unit,
                      most);
  };
  require(b.gpus, 1e8, "--gpus", "GPUs");
  if (b.gpus != std::floor(b.gpus)) throw UserError("--gpus is {}; give a whole number", b.gpus);
  require(b.days, 1e5, "--days", "days");
  require(b.tokens, 1e18, "--tokens", "tokens");
  require(b.flops / 1e12, 1e6, "--tflops", "TFLOP/s that a GPU achieves");
}

double parse_count(const std::string& text, const std::string& option) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stopped, static_cast<size_t>(end - stopped));
  constexpr std::string_view kUnits = "KMBT";
  const size_t place = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  if (place != std::string_view::npos) value *= std::pow(10.0, 3 * (static_cast<int>(place) + 1));
  const bool known = unit.empty() || place != std::string_view::npos;
  if (error != std::errc() || !known || !(value > 0 && value <= 1e18))
    throw UserError(
        "{}: '{}' is not a number above 0 such as 300B (10^9), 1.4T (10^12), 500M or 3e11", option,
        text.substr(0, 40));
  return value;
}

}  // namespace megalith::sizing
