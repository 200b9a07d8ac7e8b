// SPDX-License-Identifier: Apache-2.0
// Wall time as text (ISO 8601, UTC, whole seconds).
#include "base/clock.h"

#include <fmt/chrono.h>

#include <cmath>

#include "base/check.h"

namespace megalith {

std::string iso_time(double wall) {
  // The years 0 to 9999, so that the text always has four digits for the year.
  MEGA_CHECK(wall >= -62167219200.0 && wall < 253402300800.0, "{} is not a time", wall);
  const auto seconds = static_cast<std::time_t>(std::floor(wall));
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds));
}

}  // namespace megalith
