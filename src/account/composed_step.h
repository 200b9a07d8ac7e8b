// SPDX-License-Identifier: Apache-2.0
// A traced step (traced_step.h) whose pipeline stage is composed (composed_stage.h): the same
// memory, to the byte, and the same work, for the time of one micro-batch through each kind of
// model chunk, however many there are of both. The rest of a step, and what is beside the steps,
// runs as it is.
//
// A step and what runs between steps each begin with nothing in use but what lasts. So the marks of
// a step are found once for all ranks whose steps are alike, whatever they do between.
#pragma once

#include <optional>

#include "account/composed_stage.h"
#include "account/traced_step.h"

namespace megalith::account {

/// Of any rank of the settings' layout; what ranks share is found once. Any thread may ask.
class ComposedSteps {
 public:
  /// Both must outlive this.
  ComposedSteps(const engine::Settings& settings, const device::Target& target);

  /// What a rank takes. Ranks with equal `step_key` take the same in a step
  /// (RankClasses::step_key).
  MemoryByClass memory(int rank, const BesideSteps& beside, const ClassKey& step_key);
  /// What a rank does in a step.
  StepWork work(int rank);
  /// What it runs beside the passes of micro-batches: sums of gradients, norm, update, casts.
  std::vector<device::Record> beside_passes(int rank);

  ChunkTapes& tapes() { return tapes_; }
  /// Of a data shard's micro-batches; by stage.
  const std::vector<std::vector<parallel::Action>>& schedule() const { return schedule_; }

 private:
  class Rank;
  std::optional<MemoryByClass> known_step(const ClassKey& key);
  const engine::Settings& settings_;
  const device::Target& target_;
  ChunkTapes tapes_;
  std::vector<std::vector<parallel::Action>> schedule_;
  std::vector<data::HostBatch> micro_batches_;  // of a rank: sizes alone
  std::mutex mutex_;
  std::map<ClassKey, MemoryByClass> steps_;  // their marks, without what lasts
};

int micro_batches_per_shard(const engine::Settings& settings);

}  // namespace megalith::account
