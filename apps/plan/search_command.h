// SPDX-License-Identifier: Apache-2.0
// megalith plan RECIPE --search --cluster F: the layouts of a recipe on a cluster, ranked.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "account/traced_step.h"
#include "apps/command.h"
#include "apps/plan/confirm.h"
#include "apps/plan/plan_modes.h"
#include "config/recipe.h"
#include "engine/settings.h"

namespace megalith::apps {

struct SearchCommand {
  std::shared_ptr<const RunSize> run;  // gpus 0: all of the cluster
  int64_t top = 10;
  bool fp8 = false;
  std::string csv, html;
  double nemo_size = 0;     // 10^9 parameters that NeMo's tool is told; 0: the model's own
  std::string nemo_folder;  // of files like its own
  ConfirmOptions confirm;
};

/// Which layout trains a recipe fastest on a cluster.
void add_search(PlanModes& modes, const std::shared_ptr<RunSize>& run,
                std::function<int(const SearchCommand& command, bool json)> answer);

/// Prints the ranking, or one JSON object, and writes what was asked for; gives the exit code.
int run_search(const SearchCommand& command, const config::Recipe& recipe,
               const engine::Settings& settings, account::BesideSteps beside, bool json);

}  // namespace megalith::apps
