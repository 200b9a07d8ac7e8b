// SPDX-License-Identifier: Apache-2.0
// The validation loss of a run, the same bits under every layout.
#pragma once

#include <memory>
#include <optional>

#include "base/function_ref.h"
#include "config/recipe.h"
#include "data/sampler.h"
#include "engine/engine.h"

namespace megalith::train {

data::SamplerOptions sampler_options(const config::Recipe& recipe, const engine::Settings& settings,
                                     data::Split split);

/// The validation data: own corpora, or the held-out end of the training ones, or none (null).
std::unique_ptr<data::Sampler> validation_sampler(const config::Recipe& recipe,
                                                  const engine::Settings& settings);

/// Mean loss over the weighted tokens of the first `samples` samples, spread over the data ranks;
/// equal on all ranks. Nothing if `stop`, which is asked before each micro-batch and answers alike
/// on all ranks, says so. Collective over the world.
std::optional<double> validation_loss(engine::Engine& engine, const data::Sampler& sampler,
                                      int64_t samples, const data::BatchOptions& options,
                                      FunctionRef<bool()> stop);

}  // namespace megalith::train
