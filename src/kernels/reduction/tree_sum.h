// SPDX-License-Identifier: Apache-2.0
// The one way in which canonical partials become one: a balanced binary tree.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// Where the tree over [lo, hi) is cut.
constexpr int64_t tree_middle(int64_t lo, int64_t hi) { return lo + (hi - lo + 1) / 2; }

///   y = tree(0, P)   or, when accumulating,   y += tree(0, P)
///   tree(lo, lo + 1) = row lo of x
///   tree(lo, hi)     = tree(lo, mid) + tree(mid, hi),   mid = lo + (hi - lo + 1) / 2
/// x [P, ...] and y [...] are f32 (or both f64: reference); rows of x may have strides; 1 <= P <=
/// 2^20. y may be row 0 of x unless it accumulates. Local; ready as of a later ticket.
struct TreeSum {
  ConstView x_PN;
  View y_N;
  bool accumulate = false;
};
void tree_sum(Exec& exec, const TreeSum& arguments);

}  // namespace megalith::kernels
