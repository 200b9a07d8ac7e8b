// SPDX-License-Identifier: Apache-2.0
// Recipe to settings: names become choices.
#pragma once

#include <functional>

#include "config/recipe.h"
#include "engine/settings.h"

namespace megalith::engine {

/// Settings without the length of the run. `vocab`: of the tokenizer, for recipes
/// that leave model.vocab at 0. UserError with all faults.
Settings settings_of(const config::Recipe& recipe, int64_t vocab);
/// The same of a model that is there (config::Recipe::tunes): the recipe's section model is not
/// read but for dropout. `add`, where given, puts in what trains beside it: what the recipe says of
/// parameters is said of all.
Settings settings_of(const config::Recipe& recipe, const models::ModelSpec& model,
                     const std::function<void(Settings&)>& add = {});

}  // namespace megalith::engine
