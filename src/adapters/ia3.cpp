// SPDX-License-Identifier: Apache-2.0
#include "adapters/ia3.h"

#include <algorithm>

namespace megalith::adapters {

bool Ia3::adapts(const std::string& module) const {
  if (excluded && excluded->contains(module)) return false;
  return targets.contains(module);
}

bool Ia3::of_inputs(const std::string& module) const {
  if (feedforward) return feedforward->matches(module);
  return std::ranges::any_of(feedforward_ends,
                             [&](const std::string& end) { return module.ends_with(end); });
}

}  // namespace megalith::adapters
