// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/relative_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "math/elementary_double.h"

namespace megalith::kernels {
namespace {

float rounded_log(double x) { return static_cast<float>(elementary::log(x)); }

}  // namespace

int64_t RelativeBuckets::of(int64_t distance) const {
  const int64_t own = bidirectional ? count / 2 : count, exact = own / 2;
  const int64_t first = bidirectional && distance > 0 ? own : 0;
  const int64_t away = bidirectional ? std::abs(distance) : std::max<int64_t>(0, -distance);
  if (away < exact) return first + away;
  const float ratio = static_cast<float>(away) / static_cast<float>(exact);
  const float whole = rounded_log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const float share = rounded_log(static_cast<double>(ratio)) / whole;
  const auto wide = static_cast<int64_t>(share * static_cast<float>(own - exact));
  return first + std::min(exact + wide, own - 1);
}

std::string RelativeBuckets::fault() const {
  const int64_t sides = bidirectional ? 2 : 1;
  if (count < 2 * sides || count % (2 * sides) != 0) {
    return fmt::format("{} buckets of distances; of {} side{} they are a multiple of {}", count,
                       sides, sides == 1 ? "" : "s", 2 * sides);
  }
  const int64_t exact = count / (2 * sides);
  if (max_distance > exact) return "";
  return fmt::format("buckets of distances up to {}, of which {} are single ones", max_distance,
                     exact);
}

}  // namespace megalith::kernels
