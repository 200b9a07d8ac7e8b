// SPDX-License-Identifier: Apache-2.0
// The text samples of a training run: continuations of the recipe's prompts, written by a copy of
// the model on a device of its own. What that takes is planned like the rest: the same code on the
// trace kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "report/samples.h"
#include "text/tokenizer.h"
#include "train/loop.h"

namespace megalith::apps {

/// Refuses, before the first step, text samples that could not be written later; `path` is the
/// recipe's.
void check_samples(const config::Recipe& recipe, const std::optional<text::Tokenizer>& tokenizer,
                   const std::string& path);

/// Continues each prompt with the model as it stands. Rank 0 writes and gives them; from the other
/// ranks it takes their weights. Collective.
train::Samples write_samples(engine::Engine& engine, int64_t step, const config::Recipe& recipe,
                             const text::Tokenizer& tokenizer);

/// What write_samples takes on rank 0, in bytes: 0 without samples; to the byte on one rank, at
/// most one tensor more than needed on several.
int64_t planned_sample_bytes(const config::Recipe& recipe, const engine::Settings& settings,
                             const text::Tokenizer* tokenizer, const device::Target& target);

}  // namespace megalith::apps
