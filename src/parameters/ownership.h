// SPDX-License-Identifier: Apache-2.0
// Who updates what, when optimizer state is spread over ranks that hold the same weights (ZeRO
// stage 1, Rajbhandari et al. 2020). The rank's parameters, in declaration order, form groups of a
// gradient bucket's size; the elements of each are cut into one run per owner. So whenever a bucket
// is reduced all owners receive, and no link stands idle. Shares are nearly equal: what the cuts of
// one group leave unequal, those of the next make up for. Cuts lie only where a partial sum of
// squares begins (kernels/reduction/norms.h), so that the gradient's norm is made of whole partial
// sums on every owner and keeps its bits. A parameter with partial rows (small: a bias, a norm) has
// one owner. A tied table is a group and cut by itself: two pipeline stages have it, with different
// neighbours.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "parameters/parameter_set.h"

namespace megalith::parameters {

/// Offsets in the parameter's local elements where a run may begin; increasing, the first is 0.
std::vector<int64_t> ownership_cuts(const Parameter& parameter);

/// What is cut together: runs of parameters of `least` elements or more, but for the ends.
std::vector<ParameterRun> ownership_groups(const std::deque<Parameter>& parameters, int64_t least);

/// Which elements (maybe none) of each parameter each of `owners` has when groups have `least`
/// elements. Every element has one owner.
Ownership owned_ranges(const std::deque<Parameter>& parameters, int owners, int64_t least);

}  // namespace megalith::parameters
