// SPDX-License-Identifier: Apache-2.0
// The validation loss of a run, the same bits under every layout.
#pragma once

#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "data/batch_source.h"
#include "engine/engine.h"

namespace megalith::engine {

/// As StepResult says; of a head that answers once for each unit (Engine::predicts) all that it
/// said, in order, and what was right; where units are tokens also how many answers each sequence
/// has.
struct ValidationLoss {
  double loss = 0;
  std::optional<double> pair_loss;
  std::vector<double> told;
  std::vector<double> predictions = {}, targets = {}, answers = {};
};

/// This data rank's part of the first `samples` samples, micro-batch after micro-batch, into
/// `pass`; rank by rank is then sample by sample. False if `stop`, which is asked before each
/// micro-batch of the largest part and answers alike on all ranks, says so.
bool pass_over(const Engine& engine, const data::BatchSource& source, int64_t samples,
               FunctionRef<bool()> stop, FunctionRef<void(const data::HostBatch& batch)> pass);

/// Mean loss over the weighted tokens of the first `samples` samples, spread over the data ranks;
/// equal on all ranks. Nothing if `stop` says so (pass_over). Collective over the world.
std::optional<ValidationLoss> validation_loss(Engine& engine, const data::BatchSource& source,
                                              int64_t samples, FunctionRef<bool()> stop);

}  // namespace megalith::engine
