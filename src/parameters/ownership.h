// SPDX-License-Identifier: Apache-2.0
// Who updates what when optimizer state is spread over ranks that hold the same weights (ZeRO stage
// 1, Rajbhandari et al. 2020). The rank's parameters, in declaration order, form groups of the size
// of a gradient bucket, and each group is cut into one run of elements per owner. So every owner
// receives something whenever a bucket is reduced, and no link stands idle. Shares are nearly
// equal: what the cuts of one group leave unequal, those of the next make up for.
//
// Cuts lie only where a partial sum of squares begins (kernels/reduction/norms.h): every owner has
// whole partial sums of the gradient's norm, which keeps its bits. A parameter with partial rows
// (small: a bias, a norm) has a single owner. A tied table is a group of its own, since two
// pipeline stages hold it among different neighbours. A frozen parameter has no owner.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "parameters/parameter_set.h"

namespace megalith::parameters {

/// Offsets in the parameter's local elements where a run may begin; increasing, the first is 0.
std::vector<int64_t> ownership_cuts(const Parameter& parameter);

/// The groups: runs of parameters with `least` elements or more, except at the ends.
std::vector<ParameterRun> ownership_groups(const std::deque<Parameter>& parameters, int64_t least);

/// Which elements (maybe none) of each parameter each of `owners` owners has, with groups of
/// `least` elements. Every element has exactly one owner.
Ownership owned_ranges(const std::deque<Parameter>& parameters, int owners, int64_t least);

}  // namespace megalith::parameters
