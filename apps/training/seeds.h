// SPDX-License-Identifier: Apache-2.0
// tune.seeds: the runs of a recipe with several seeds, and what they say together.
#pragma once

#include <span>

#include "apps/training/training.h"

namespace megalith::apps {

/// The runs in turn; when all are finished, their validations side by side on standard output and
/// in run.out/seeds.json. Finished ones are not run again. Gives the exit code.
int run_seeds(const config::Recipe& recipe, std::span<const Training> runs,
              const std::optional<Launch>& launch, const train::StopRequest& stop,
              const TrainingOptions& extra, bool json);

}  // namespace megalith::apps
