// SPDX-License-Identifier: Apache-2.0
// What a recipe may say of several tasks in one run, and of virtual tokens inside texts.
#pragma once

#include <string>
#include <vector>

#include "config/recipe.h"

namespace megalith::tune {

/// Appends all that has no meaning, or is not built, beside tune.tasks; nothing without tasks.
void check_tasks(const config::Recipe& recipe, std::vector<std::string>& faults);
/// The same of tune.virtual_token_splits.
void check_splits(const config::Recipe& recipe, std::vector<std::string>& faults);

}  // namespace megalith::tune
