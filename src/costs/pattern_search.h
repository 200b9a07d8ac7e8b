// SPDX-License-Identifier: Apache-2.0
// A minimum without gradients (Hooke & Jeeves 1961): steps along one coordinate after the other,
// and on along what they moved; shorter ones where nothing helps. Coordinates are positive and
// steps are factors. Deterministic.
#pragma once

#include <vector>

#include "base/function_ref.h"

namespace megalith::costs {

/// From `x` on, until steps of a factor 1 + `precision` do not help.
std::vector<double> least_by_pattern(std::vector<double> x,
                                     FunctionRef<double(const std::vector<double>&)> value,
                                     double precision = 1e-4);

}  // namespace megalith::costs
