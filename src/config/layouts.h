// SPDX-License-Identifier: Apache-2.0
// Which layouts a recipe allows, for messages about one that it does not.
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

/// parallel.tensor x parallel.pipeline x parallel.data; the largest int64 beyond it.
int64_t num_ranks(const Recipe& recipe);

/// At most `count` layouts that fit the recipe's canonical split and layers, those nearest to
/// `ranks` ranks first, among equals the ones that change least of what the recipe says. `recipe`
/// is resolved.
std::vector<LayoutChoice> nearest_layouts(const Recipe& recipe, int64_t ranks, size_t count = 3);

/// The same in words: "parallel.tensor 2 x parallel.pipeline 1 x parallel.data 2 (4 ranks), ...".
std::string layouts_text(const Recipe& recipe, int64_t ranks);

/// Settles the layout of a run that `ranks` ranks are there for (0: as many as the recipe says):
/// when the recipe names none, all are data ranks. UserError, naming layouts that fit, when it
/// names another number or the batch cannot be spread so.
void settle_layout(Recipe& recipe, int64_t ranks);

}  // namespace megalith::config
