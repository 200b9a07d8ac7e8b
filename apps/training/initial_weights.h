// SPDX-License-Identifier: Apache-2.0
// train.init and tune.model: the weights that a run begins with.
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.h"
#include "config/recipe.h"
#include "engine/settings.h"
#include "store/model_source.h"
#include "train/loop.h"

namespace megalith::apps {

/// UserError when --restart would move away what `key` names (nothing when it is empty); `path` is
/// the recipe's.
void check_restart(const config::Recipe& recipe, std::string_view key, const std::string& model,
                   const std::string& path);

/// The model that train.init names, opened by a run that begins and compared with the recipe's;
/// nothing without, and nothing for a run that goes on. Collective.
std::optional<store::ModelSource> initial_weights(comm::Communicator& world,
                                                  const config::Recipe& recipe,
                                                  const engine::Settings& settings);

/// The run begins with these weights alone (the optimizer begins anew) and records which.
void begin_with(const store::ModelSource& source, train::RunInputs& inputs);

}  // namespace megalith::apps
