// SPDX-License-Identifier: Apache-2.0
// The validation loss of a run, the same bits under every layout.
#pragma once

#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "data/batch_source.h"
#include "engine/engine.h"

namespace megalith::engine {

/// As StepResult says; of a head with one prediction for each unit (Engine::predicts) also all
/// predictions and targets, in order, and where units are tokens how many each sequence has.
struct ValidationLoss {
  double loss = 0;
  std::optional<double> pair_loss;
  std::vector<double> told;
  /// Of each of the source's tasks the mean over its weighted tokens; nothing where it has none.
  std::vector<std::optional<double>> tasks = {};
  std::vector<double> predictions = {}, targets = {}, answers = {};
};

/// Calls `pass` with this data rank's part of the first `samples` samples, micro-batch after
/// micro-batch: what the ranks gather, rank by rank, is in the order of samples. False when
/// stopped: `stop` is asked before each micro-batch of the largest part, and answers alike on all
/// ranks.
bool pass_over(const Engine& engine, const data::BatchSource& source, int64_t samples,
               FunctionRef<bool()> stop, FunctionRef<void(const data::HostBatch& batch)> pass);

/// Mean loss over the weighted tokens of the first `samples` samples, spread over the data ranks;
/// equal on all ranks. Nothing if `stop` says so (pass_over). Collective over the world.
std::optional<ValidationLoss> validation_loss(Engine& engine, const data::BatchSource& source,
                                              int64_t samples, FunctionRef<bool()> stop);

}  // namespace megalith::engine
