// SPDX-License-Identifier: Apache-2.0
// Candidates that were run: what their steps really took, what that says of the cluster's figures,
// and the order of all with it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/layout_search.h"

namespace megalith::search {

/// A run of a candidate, or what kept it from running.
struct Trial {
  LayoutPoint point;
  double predicted = 0;  // seconds of a step, by the cluster file
  std::optional<double> seconds = {};
  std::optional<int64_t> memory_bytes = {};  // of the rank that took most
  std::optional<double> other_load = {};     // of the cores' time, by other programs
  std::string failure = {};  // the cause in a line; empty: it ran, or has not been run
};

/// What the cluster's times are multiplied with.
struct Refit {
  double compute = 1;  // kernels, products, memory
  double wire = 1;     // transfers between ranks
};
clusters::Cluster refitted(clusters::Cluster cluster, const Refit& refit);

/// The factors that bring predictions nearest to the trials that ran: least sum of squared
/// logarithms, plus kPull times the factors' own, so that few trials do not move what they say
/// nothing of.
inline constexpr double kPull = 0.01;
Refit refit_to(std::span<const Trial> trials, const engine::Settings& base,
               const clusters::Cluster& cluster);

/// Null when it is not among them.
const Trial* trial_of(std::span<const Trial> trials, const LayoutPoint& point);

/// Notes what was measured and orders `best` by it, and by the (refitted) prediction where nothing
/// was; those whose trials failed are taken out.
void rank_by_trials(std::vector<Candidate>& best, std::span<const Trial> trials);

}  // namespace megalith::search
