// SPDX-License-Identifier: Apache-2.0
// A whole training run on one rank: data, steps, logs, validation, text samples, checkpoints,
// resume. What is not training's own (samples of text, the plan) comes in as hooks.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "report/metrics.h"
#include "report/samples.h"
#include "text/tokenizer.h"
#include "train/engine.h"

namespace megalith::train {

struct Hooks {
  /// Continues each of the recipe's prompts with the model as it stands.
  std::function<std::vector<report::TextSample>(Engine&, int64_t step)> samples;
  /// Around the computation of each step (data, validation and saves are outside); optional.
  std::function<void(Engine&, int64_t step)> before_step;
  std::function<void(Engine&, int64_t step, double seconds)> after_step;
};

/// What is known before the first step and recorded in run.json.
struct RunFacts {
  std::string version;
  double gemm_ceiling_flops = 0;  // flop/s; the unit of mfu
  double step_flops = 0;          // necessary, of a full batch
  nlohmann::ordered_json machine;
  nlohmann::ordered_json planned_memory;  // bytes by class; empty: no plan
  std::vector<std::string> allow;         // recipe keys that a resume may change
};

struct RunResult {
  report::StepMetrics last;  // step 0 when nothing was trained
  std::string status;        // "finished", "stopped" (by a signal), "already finished"
  int signal = 0;
};

/// Trains as the recipe says, from its newest checkpoint if the run folder has one. One rank.
/// `tokenizer` may be null when the recipe names none.
RunResult run_training(const config::Recipe& recipe, const text::Tokenizer* tokenizer,
                       const RunFacts& facts, const Hooks& hooks, device::Device& device,
                       bool show_progress);

}  // namespace megalith::train
