// SPDX-License-Identifier: Apache-2.0
// The model that a recipe describes: its family's defaults, and what the recipe says otherwise.
#pragma once

#include "config/recipe.h"
#include "spec/model_spec.h"

namespace megalith::models {

/// Puts the family's values where the section says "as the family has it". Idempotent. UserError
/// when there is no such family.
void complete(config::ModelSection& section);

/// config::fingerprint of a complete recipe, beside the complete default.
std::string fingerprint_of(const config::Recipe& recipe);

/// `vocab` is the tokenizer's, 0 without one. UserError naming what is impossible.
ModelSpec model_of(const config::Recipe& recipe, int64_t vocab);

}  // namespace megalith::models
