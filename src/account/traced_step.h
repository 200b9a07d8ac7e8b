// SPDX-License-Identifier: Apache-2.0
// One training step of given settings on a trace device: the body of a plan.
#pragma once

#include "comm/communicator.h"
#include "config/recipe.h"
#include "engine/engine.h"
#include "inference/inference_engine.h"

namespace megalith::account {

/// A batch of the right sizes; its values are never read.
data::HostBatch shaped_batch(const engine::Settings& settings, int64_t samples);
/// One data rank's micro-batches of a full step, of the right sizes; ids and targets are 0.
std::vector<data::HostBatch> shaped_batches(const engine::Settings& settings);

/// What of a run takes memory beside its steps.
struct BesideSteps {
  int64_t validation_samples = 0;  // 0: no validation
  bool snapshot = false;           // saves go on in the background
  bool saves = false;              // state spread over data ranks is brought together
  /// Text samples: tokens of each prompt, and new tokens at most; by the first data rank's group.
  std::vector<int64_t> prompt_lengths{};
  int64_t new_tokens = 0;
};
/// `prompt_lengths`: of the recipe's prompts, where it writes samples.
BesideSteps beside_steps(const config::Recipe& recipe, std::vector<int64_t> prompt_lengths);

/// What continuing a prompt takes: the prompt read, then the last of the new tokens. `inference` is
/// on the trace kind. Collective.
void traced_generation(inference::InferenceEngine& inference, int64_t prompt_length,
                       int64_t new_tokens);

/// The parts of a traced run in their order, on one rank: builds its engine, takes what lies beside
/// it all along. `device` is of the trace kind, `world` traced or self.
class TracedRun {
 public:
  TracedRun(const engine::Settings& settings, device::Device& device, comm::Communicator& world,
            const BesideSteps& beside);
  engine::Engine& engine() { return engine_; }
  void step(std::span<const data::HostBatch> micro_batches);
  /// What runs between steps.
  void between_steps();

 private:
  parallel::Mesh mesh_;
  engine::Engine engine_;
  BesideSteps beside_;
  device::Allocation snapshot_;
};

/// All of it with one full step.
void traced_step(const engine::Settings& settings, device::Device& device,
                 comm::Communicator& world, const BesideSteps& beside);

}  // namespace megalith::account
