// SPDX-License-Identifier: Apache-2.0
// The rules that validate() (recipe.h) goes through and that fill more than one file. `r` is a
// resolved recipe whose single fields are in range.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/recipe.h"

namespace megalith::config {

using Faults = std::vector<Fault>;

inline void add(Faults& faults, std::string path, std::vector<std::string> involved,
                std::string message) {
  faults.push_back({std::move(path), {}, std::move(message), std::move(involved)});
}

/// The sequences of a step and their growth.
void batch_rules(const Recipe& r, Faults& faults);
/// What is predicted of which samples.
void objective_rules(const Recipe& r, Faults& faults);
/// Number formats, and the loss scale.
void precision_rules(const Recipe& r, Faults& faults);
/// Ranks, canonical shards and the sequence; `given` is the recipe as it was written, by which
/// advice is tried.
void layout_rules(const Recipe& r, const Recipe& given, Faults& faults);

}  // namespace megalith::config
