// SPDX-License-Identifier: Apache-2.0
// What a recipe says of a run beside its settings: its length, in whatever unit, and its data.
#pragma once

#include <memory>

#include "config/recipe.h"
#include "data/batch_source.h"
#include "engine/settings.h"
#include "text/tokenizer.h"

namespace megalith::train {

/// How long a run is. `steps` is the last step; with an hour budget it is as many as fit.
struct RunLength {
  int64_t steps = 0;
  double budget_seconds = 0;  // 0: none
  /// Whether a run that has done `step` steps in `seconds` of training is at its end.
  bool is_reached(int64_t step, double seconds) const {
    return budget_seconds > 0 ? seconds >= budget_seconds : step >= steps;
  }
};
/// train.steps, tokens, epochs or hours, whichever is given; `samples_per_epoch` serves epochs.
RunLength run_length(const config::Recipe& recipe, const engine::Settings& settings,
                     int64_t samples_per_epoch);
/// Puts the length into the schedule.
void set_length(engine::Settings& settings, const RunLength& length, int64_t decay_steps);

/// The training samples that the recipe's corpora make under its objective; `tokenizer` may be null
/// where nothing needs one. UserError when a corpus cannot be read.
std::unique_ptr<data::BatchSource> training_source(const config::Recipe& recipe,
                                                   const engine::Settings& settings,
                                                   const text::Tokenizer* tokenizer);
/// The validation samples: of corpora of their own, or the held-out end of the training ones; null
/// when the recipe validates never.
std::unique_ptr<data::BatchSource> validation_source(const config::Recipe& recipe,
                                                     const engine::Settings& settings,
                                                     const text::Tokenizer* tokenizer);

}  // namespace megalith::train
