// SPDX-License-Identifier: Apache-2.0
// Gradients against finite differences, in double precision:
//   D(h)        = (f(x + h) - f(x - h)) / 2h
//   four-point  = (4 D(h) - D(2h)) / 3,   whose error is O(h^4)
// The bound is derived from what is known about that error, not from experience:
//   truncation  the extrapolation moved D(h) by |D(h) - D(2h)| / 3; its own error is O(h^2) of that
//               and is allowed 1 % of it;
//   rounding    f is a sum of rounded terms: 2^8 half-ulps of it, as seen through the division by
//   h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "tensor/view.h"

namespace megalith::testing {

struct GradientCheckOptions {
  double step = 1e-3;
  /// Elements probed: the largest gradients and as many spread evenly.
  int elements = 6;
  /// False where the gradient is zero for a reason: then a gradient that is zero everywhere is
  /// allowed.
  bool must_matter = true;
};

/// `x` (f64, host memory, contiguous) is what `value` depends on; it is moved and put back.
/// `gradient`, f64, as many elements: copied before `value` is called. Returns one line per element
/// that is out of bounds; a gradient that is nowhere above its bounds is a fault too, since then
/// nothing was tested.
std::vector<std::string> gradient_faults(const std::string& name, View x, ConstView gradient,
                                         FunctionRef<double()> value,
                                         const GradientCheckOptions& options = {});

}  // namespace megalith::testing
