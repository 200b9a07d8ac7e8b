// SPDX-License-Identifier: Apache-2.0
// plan --search --confirm K: the best candidates as runs of a few steps, here or elsewhere, and the
// ranking with what they took.
#pragma once

#include <string>
#include <vector>

#include "config/recipe.h"
#include "search/confirmation.h"

namespace megalith::apps {

struct ConfirmOptions {
  int64_t count = 0;     // candidates; 0: none
  std::string folder;    // of their recipes and results; empty: beside run.out
  std::string launcher;  // words before the program; {ranks}: how many
  int64_t samples = 5;   // of each run
};

struct Confirmation {
  std::vector<search::Trial> trials;  // in the order in which they were asked for
  search::Refit refit;
  bool ran_here = false;
  std::string folder;
  std::vector<std::string> commands;  // to make the runs that are missing
};

struct ConfirmInputs {
  const config::Recipe& recipe;
  const engine::Settings& settings;
  const clusters::Cluster& cluster;
  const search::SearchOptions& search;
};

/// Whether the cluster file is of this machine (megalith bench machine).
bool is_this_machine(const clusters::Cluster& cluster);

/// Runs what is to be run, or reads what was; `result` becomes the ranking with it. UserError when
/// none of the candidates runs, with the first one's cause.
Confirmation confirm(const ConfirmOptions& options, const ConfirmInputs& inputs,
                     search::SearchResult& result);

}  // namespace megalith::apps
