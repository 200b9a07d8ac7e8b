// SPDX-License-Identifier: Apache-2.0
// Tests only: what is said of a recipe that tunes.
#pragma once

#include <string>

#include "base/error.h"
#include "tune/recipe_rules.h"

namespace megalith::tune {

/// All faults; empty: there are none.
inline std::string faults_of(const config::Recipe& recipe) {
  try {
    check_recipe(recipe, {}, "recipe.yaml");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace megalith::tune
