// SPDX-License-Identifier: Apache-2.0
#include "serve/histogram.h"

#include <fmt/format.h>

#include <algorithm>

namespace megalith::serve {

void Histogram::add(double value) {
  ++count_;
  sum_ += value;
  const auto at = std::ranges::lower_bound(bounds_, value);
  if (at != bounds_.end()) ++counts_[static_cast<size_t>(at - bounds_.begin())];
}

std::string Histogram::text(const std::string& name, const std::string& labels) const {
  std::string text;
  int64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], below);
  }
  return text + fmt::format(
                    "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n"
                    "{0}_count{{{1}}} {2}\n",
                    name, labels, count_, sum_);
}

}  // namespace megalith::serve
