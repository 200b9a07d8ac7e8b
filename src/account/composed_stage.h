// SPDX-License-Identifier: Apache-2.0
// A pipeline stage put together from the tapes of its model chunks: the actions of its schedule,
// where each forward and backward plays what the pass takes and gives back. Slots are those of
// engine/pipeline_stage.h. Once the arenas and all slots come back to a state they had some
// micro-batches before, the same actions would bring them back again: those repeats are counted,
// not played.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "account/chunk_tape.h"
#include "engine/engine.h"

namespace megalith::account {

/// What ran, with the bytes sent by kind of collective.
struct StepWork {
  device::Work work;
  std::map<std::string, int64_t> wire_bytes;
  void add(const device::Work& more, const std::map<std::string, int64_t>& wire, int64_t times);
};

/// One rank's stage, on a trace device.
class ComposedStage {
 public:
  ComposedStage(engine::Engine& engine, ChunkTapes& tapes);

  // The micro-batches of a data shard, for an engine's StageRunner. `actions`: of this stage.

  /// Adds what they do to work().
  void count(std::span<const parallel::Action> actions, int64_t micro_batches);
  /// Takes what they take.
  void play(std::span<const parallel::Action> actions, const engine::PipelineStage::Work& work);
  /// Instead: only names the parameters that they complete.
  void complete(const engine::PipelineStage::Work& work) const;

  const StepWork& work() const { return work_; }

 private:
  struct ModelChunk {
    const ChunkTape* tape = nullptr;
    models::Stage stage;
    const models::Decoder* decoder = nullptr;  // which knows the parameters of the stage
    /// What the backward of a micro-batch names in turn: the head's parameters where there is one,
    /// the blocks' from the last to the first.
    parameters::ParameterRun completed(size_t turn) const;
  };
  using Objects = std::vector<device::Allocation>;
  struct Slot {
    std::shared_ptr<Objects> batch;  // one for all chunks of a micro-batch
    Objects objects;
    bool has_gradient = false;
  };
  using Completed = std::function<void(const parameters::ParameterRun&)>;
  Slot& open(int micro_batch, int chunk);
  void pass(const PassTape& tape, const ModelChunk& model_chunk, Objects& objects,
            const Completed& completed);
  void place_gradient(Slot& slot, const ModelChunk& model_chunk);
  void backward(int micro_batch, int chunk, const Completed& completed);
  void act(const parallel::Action& action, int micro_batch, const Completed& completed);
  std::vector<int64_t> state(int micro_batch) const;

  engine::Engine& engine_;
  std::vector<ModelChunk> chunks_;                 // by chunk
  std::map<std::pair<int, int>, Slot> slots_;      // by micro-batch and chunk
  std::map<int, std::weak_ptr<Objects>> batches_;  // by micro-batch
  StepWork work_;
};

}  // namespace megalith::account
