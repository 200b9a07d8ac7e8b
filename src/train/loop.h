// SPDX-License-Identifier: Apache-2.0
// A whole training run, as each of its ranks goes through it: data, steps, logs, validation, text
// samples, checkpoints, resume. Rank 0 writes the logs and decides what a clock or a signal
// decides; all ranks write their part of a checkpoint. What is not training's own (samples of text,
// the plan) comes in as hooks.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "config/recipe.h"
#include "data/batch_source.h"
#include "engine/validation.h"
#include "metrics/classification.h"
#include "report/metrics.h"
#include "report/samples.h"
#include "text/tokenizer.h"
#include "train/stop_request.h"

namespace megalith::train {

struct Hooks {
  /// Continues each of the recipe's prompts with the model as it stands. Collective; what rank 0
  /// returns counts.
  std::function<std::vector<report::TextSample>(engine::Engine&, int64_t step)> samples;
  /// Around the computation of each step (data, validation and saves are outside); optional.
  std::function<void(engine::Engine&, int64_t step)> before_step;
  std::function<void(engine::Engine&, int64_t step, double seconds)> after_step;
};

/// What is known before the first step and recorded in run.json, by rank 0.
struct RunFacts {
  std::string version;
  double gemm_ceiling_flops = 0;  // flop/s of all ranks; the unit of mfu
  double step_flops = 0;          // necessary, of a full batch
  nlohmann::ordered_json machine;
  nlohmann::ordered_json planned_memory;  // bytes by class; empty: no plan
  std::vector<std::string> allow;         // recipe keys that a resume may change
  nlohmann::ordered_json init;            // what the weights were that it began with, if given
};

/// What samples have of the weights that a run begins with (the reference that answers are compared
/// with): kept in its folder, made again where that has it not. Null: nothing.
struct OfFirstWeights {
  /// Takes what is kept; false when it isn't there, damaged, or of other weights or samples.
  /// Collective.
  std::function<bool(comm::Communicator& world)> take_kept;
  /// Makes it of the weights that the engine has. False when `stop`, which answers alike on all
  /// ranks, says so. Collective.
  std::function<bool(engine::Engine&, FunctionRef<bool()> stop)> make;
};

/// How validations score answers, where the model's head says where they begin and end. Null: they
/// don't.
struct JudgedSpans {
  engine::KeepSpans keep;
  /// Of what was kept of the first `samples` samples. On every rank.
  std::function<metrics::Scores(int64_t samples, std::span<const double> kept)> scores;
  /// Of all that these are worked out from beside the samples. They decide what ranks do together,
  /// so ranks of which it differs train nothing.
  std::string fingerprint;
};

struct RunResult {
  report::StepMetrics last;  // step 0 when nothing was trained
  std::string status;        // "finished", "stopped" (by a signal)
  int signal = 0;
};

/// What a run works on. All that is referred to must outlive it.
struct RunInputs {
  const config::Recipe& recipe;
  const engine::Settings& settings;  // of the recipe, without its length
  const text::Tokenizer* tokenizer;  // saved along; null: none
  const data::BatchSource& training;
  const data::BatchSource* validation;  // null: none
  /// Fills every parameter of a run that begins, all ranks alike; from the seed unless given. Where
  /// what trains lies beside the weights (Settings::trains_beside_weights) of one that goes on too:
  /// checkpoints have none of the weights.
  std::function<void(engine::Engine&)> initial_weights{};
  OfFirstWeights of_first_weights{};
  JudgedSpans spans{};
  /// Fingerprint of the weights that a recipe tunes, saved and compared by whoever goes on; empty:
  /// it tunes none.
  std::string base{};
  /// Saved in each checkpoint beside the recipe and the tokenizer, by name; values of its state.
  std::map<std::string, std::string> texts{};
  nlohmann::json state{};
  RunFacts facts{};
  Hooks hooks{};
  const StopRequest* stop = nullptr;  // on the rank that listens for signals in its process
  bool show_progress = false;
};

/// Trains as the recipe says, from its newest checkpoint if the run folder has one. Collective over
/// `world`, whose size is that of the recipe's layout; of the result, rank 0's counts (others have
/// the same status and signal).
RunResult run_training(const RunInputs& inputs, comm::Communicator& world, device::Device& device);

}  // namespace megalith::train
