// SPDX-License-Identifier: Apache-2.0
// The one way in which canonical partials become one: a balanced binary tree.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// y = tree(0, P), or y += it, where tree(lo, hi) is row lo of x when hi = lo + 1, else
/// tree(lo, mid) + tree(mid, hi) with mid = lo + (hi - lo + 1) / 2. x [P, ...] and y [...] f32 (or
/// f64 both: reference); rows of x may have strides; P >= 1, at most 2^20. y may be row 0 of x
/// unless it accumulates. Local; ready as of a later ticket.
struct TreeSum {
  ConstView x_PN;
  View y_N;
  bool accumulate = false;
};
void tree_sum(Exec& exec, const TreeSum& arguments);

}  // namespace megalith::kernels
