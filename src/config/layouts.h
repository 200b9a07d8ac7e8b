// SPDX-License-Identifier: Apache-2.0
// The layouts that a recipe allows, for messages about one that it does not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/recipe.h"

namespace megalith::config {

struct LayoutChoice {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t data = 1;
  int64_t ranks() const { return tensor * pipeline * data; }
};

/// parallel.tensor x parallel.pipeline x parallel.data; capped at the largest int64.
int64_t num_ranks(const Recipe& recipe);

/// At most `count` layouts that fit the recipe's canonical split and layers: nearest to `ranks`
/// ranks first, and among equals the one closest to the recipe. `recipe` is resolved.
std::vector<LayoutChoice> nearest_layouts(const Recipe& recipe, int64_t ranks, size_t count = 3);

/// The same in words: "parallel.tensor 2 x parallel.pipeline 1 x parallel.data 2 (4 ranks), ...".
std::string layouts_text(const Recipe& recipe, int64_t ranks);

/// Fixes the layout of a run that has `ranks` ranks (0: as many as the recipe says). A recipe that
/// names no layout gets data ranks. UserError, naming layouts that fit, if the recipe asks for
/// another number or the batch cannot be divided.
void settle_layout(Recipe& recipe, int64_t ranks);

}  // namespace megalith::config
