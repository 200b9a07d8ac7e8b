// SPDX-License-Identifier: Apache-2.0
// What a recipe that tunes a model may say.
#pragma once

#include <string>

#include "config/recipe.h"

namespace megalith::tune {

/// UserError, beginning with `where`, with all that has no meaning in such a recipe or is not
/// built. `recipe` and `standard`, the recipe that says nothing, are complete
/// (config::CompleteModel).
void check_recipe(const config::Recipe& recipe, const config::Recipe& standard,
                  const std::string& where);

}  // namespace megalith::tune
