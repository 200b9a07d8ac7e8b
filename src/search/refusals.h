// SPDX-License-Identifier: Apache-2.0
// Why layouts are not among the candidates, and the smallest change that would let them be.
#pragma once

#include "search/layout_search.h"

namespace megalith::search {

/// Rules of the space first, then memory by where it is missing, each with its number of layouts.
/// `refused` did not fit, `fitting` did; both with bounds of their times.
std::vector<Refusal> refusals_of(const Space& space, const std::vector<Candidate>& refused,
                                 const std::vector<Candidate>& fitting,
                                 const clusters::Cluster& cluster);

/// For errors: no layout at all, and none that fits.
std::string empty_space_text(const Space& space, int64_t devices);
std::string nothing_fits_text(const std::vector<Candidate>& refused,
                              const clusters::Cluster& cluster, int64_t devices);

}  // namespace megalith::search
