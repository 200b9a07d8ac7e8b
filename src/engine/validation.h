// SPDX-License-Identifier: Apache-2.0
// The validation loss of a run, the same bits under every layout.
#pragma once

#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "data/batch_source.h"
#include "engine/engine.h"

namespace megalith::engine {

/// As StepResult says; of a head that answers once for each sequence (Engine::predicts) all that it
/// said, in order, and what was right.
struct ValidationLoss {
  double loss = 0;
  std::optional<double> pair_loss;
  std::vector<double> told;
  std::vector<double> predictions = {}, targets = {};
};

/// Mean loss over the weighted tokens of the first `samples` samples, spread over the data ranks;
/// equal on all ranks. Nothing if `stop`, which is asked before each micro-batch and answers alike
/// on all ranks, says so. Collective over the world.
std::optional<ValidationLoss> validation_loss(Engine& engine, const data::BatchSource& source,
                                              int64_t samples, FunctionRef<bool()> stop);

}  // namespace megalith::engine
