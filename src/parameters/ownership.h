// SPDX-License-Identifier: Apache-2.0
// Who updates what, when optimizer state is spread over ranks that hold the same weights (ZeRO
// stage 1, Rajbhandari et al. 2020). All elements of the rank's parameters, in declaration order,
// are cut into one run per owner, nearly equal in length. Cuts lie only where a partial sum of
// squares begins (kernels/reduction/norms.h), so that the gradient's norm is made of whole partial
// sums on every owner and keeps its bits. A parameter with partial rows (small: a bias, a norm) has
// one owner. A tied table is cut by itself: two pipeline stages have it, with different neighbours.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "parameters/parameter.h"

namespace megalith::parameters {

/// Offsets in the parameter's local elements where a run may begin; increasing, the first is 0.
std::vector<int64_t> ownership_cuts(const Parameter& parameter);

/// By parameter, in order: the elements that owner `owner` of `owners` has (maybe none). Every
/// element has one owner.
std::vector<ElementRange> owned_ranges(const std::deque<Parameter>& parameters, int owner,
                                       int owners);

}  // namespace megalith::parameters
