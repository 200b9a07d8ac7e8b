// SPDX-License-Identifier: Apache-2.0
// The order of candidates.
#pragma once

#include "search/layout_search.h"

namespace megalith::search {

/// By time, then by memory, then by the layout: a total order.
bool faster(const Candidate& a, const Candidate& b);
/// Sets its time to that of its schedule.
void simulate(const engine::Settings& base, const clusters::Cluster& cluster, Candidate& candidate);
/// Sets its memory to the bytes of the rank that takes most, exactly.
void plan(const engine::Settings& base, const SearchOptions& options, Candidate& candidate);

/// The best of each cut, at most `options.top`: simulated, planned to the byte, fitting. `all`: in
/// the order of their bounds. Adds to `simulated`.
std::vector<Candidate> ranked(const engine::Settings& base, const clusters::Cluster& cluster,
                              const SearchOptions& options, std::vector<Candidate>& all,
                              int64_t& simulated);

}  // namespace megalith::search
