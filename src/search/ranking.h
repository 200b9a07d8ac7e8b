// SPDX-License-Identifier: Apache-2.0
// The order of candidates.
#pragma once

#include "search/layout_search.h"

namespace megalith::search {

/// What is planned is planned for: kernels' scratch on a GPU is taken to be that of a CPU's.
inline const device::Target kPlanTarget{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};

/// By time, then by memory.
bool faster(const Candidate& a, const Candidate& b);
/// Sets its time to that of its schedule.
void simulate(const engine::Settings& base, const clusters::Cluster& cluster, Candidate& candidate);

/// The best of each cut, at most `options.top`: simulated, planned to the byte, fitting. `all`: in
/// the order of their bounds. Adds to `simulated`.
std::vector<Candidate> ranked(const engine::Settings& base, const clusters::Cluster& cluster,
                              const SearchOptions& options, std::vector<Candidate>& all,
                              int64_t& simulated);

}  // namespace megalith::search
