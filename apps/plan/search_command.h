// SPDX-License-Identifier: Apache-2.0
// megalith plan RECIPE --search --cluster F: the layouts of a recipe on a cluster, ranked.
#pragma once

#include <string>

#include "account/traced_step.h"
#include "apps/command.h"
#include "config/recipe.h"
#include "engine/settings.h"

namespace megalith::apps {

struct SearchCommand {
  bool wanted = false;
  std::string cluster;
  int64_t gpus = 0;  // 0: all of the cluster
  int64_t top = 10;
  bool fp8 = false;
  std::string csv, output, html;
  /// Adds the options; they exclude `others`.
  void declare(CLI::App& command, const std::vector<CLI::Option*>& others);
};

/// Prints the ranking, or one JSON object, and writes what was asked for; gives the exit code.
int run_search(const SearchCommand& command, const config::Recipe& recipe,
               const engine::Settings& settings, account::BesideSteps beside, bool json);

}  // namespace megalith::apps
