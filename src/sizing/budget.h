// SPDX-License-Identifier: Apache-2.0
// What there is to train with.
#pragma once

#include <string>

namespace megalith::sizing {

struct Budget {
  double gpus = 0;
  double days = 0;
  double tokens = 0;
  double flops = 0;  // a second and GPU, achieved
  /// Of the whole run.
  double total_flops() const { return days * 86400 * gpus * flops; }
};

/// UserError naming the option to change when a number is no budget.
void check(const Budget& budget);

/// "300B", "1.4e12", "512": a positive number, with K, M, B (10^9) or T behind it. UserError that
/// begins with `option`.
double parse_count(const std::string& text, const std::string& option);

}  // namespace megalith::sizing
