// SPDX-License-Identifier: Apache-2.0
#include "account/composed_step.h"

#include <algorithm>

#include "comm/backends.h"

namespace megalith::account {
namespace {

using device::MemoryClass;

/// What a step asks of a micro-batch whose passes are played.
data::HostBatch sizes_of_batch(const engine::Settings& settings) {
  data::HostBatch batch;
  batch.num_samples = settings.micro_batch;
  batch.sequence_length = settings.loss_length();
  batch.ids_T.resize(static_cast<size_t>(batch.num_samples * batch.sequence_length));
  return batch;
}

}  // namespace

int micro_batches_per_shard(const engine::Settings& s) {
  return narrow<int>(s.batch.full / s.micro_batch / s.split.data_shards);
}

ComposedSteps::ComposedSteps(const engine::Settings& settings, const device::Target& target)
    : settings_(settings),
      target_(target),
      tapes_(settings, target),
      schedule_(parallel::make_schedule(settings.pipeline_schedule, settings.layout.pipeline,
                                        micro_batches_per_shard(settings), settings.layout.chunks)),
      micro_batches_(
          static_cast<size_t>(settings.batch.full / settings.layout.data / settings.micro_batch),
          sizes_of_batch(settings)) {}

/// A rank's engine on a trace device.
class ComposedSteps::Rank {
 public:
  Rank(ComposedSteps& steps, int rank, const BesideSteps& beside, device::Recorder* recorder)
      : steps_(steps),
        device_(device::make_trace_device(steps.target_)),
        world_(comm::make_traced_communicator(*device_, rank, steps.settings_.layout.num_ranks())),
        run_(steps.settings_, record_to(*device_, recorder), *world_, beside),
        stage_(run_.engine(), steps.tapes_) {}

  /// `plays`: takes what the passes take; else they only count.
  StepWork step(bool plays) {
    const auto stage = static_cast<size_t>(run_.engine().mesh().at().pipeline);
    run_.engine().set_stage_runner([&](const engine::PipelineStage::Work& work) {
      stage_.count(steps_.schedule_[stage], static_cast<int64_t>(work.micro_batches.size()));
      if (plays) {
        stage_.play(steps_.schedule_[stage], work);
      } else {
        stage_.complete(work);
      }
    });
    run_.step(steps_.micro_batches_);
    return stage_.work();
  }
  TracedRun& run() { return run_; }
  device::Device& device() { return *device_; }

 private:
  static device::Device& record_to(device::Device& device, device::Recorder* recorder) {
    device.set_recorder(recorder);
    return device;
  }
  ComposedSteps& steps_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::Communicator> world_;
  TracedRun run_;
  ComposedStage stage_;
};

std::optional<MemoryByClass> ComposedSteps::known_step(const ClassKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = steps_.find(key);
  return found == steps_.end() ? std::nullopt : std::optional(found->second);
}

MemoryByClass ComposedSteps::memory(int rank, const BesideSteps& beside, const ClassKey& step_key) {
  Rank one(*this, rank, beside, nullptr);
  const device::Device& device = one.device();
  const int64_t lasting = device.total().in_use;
  std::optional<MemoryByClass> step = known_step(step_key);
  if (!step) {
    one.step(true);
    step = memory_of(device);
    step->total -= lasting;
    const std::lock_guard lock(mutex_);
    steps_.try_emplace(step_key, *step);
  }
  MEGA_CHECK_EQ(device.total().in_use, lasting);
  one.run().between_steps();
  MemoryByClass memory = memory_of(device);
  for (const auto passing : {MemoryClass::activations, MemoryClass::workspace}) {
    int64_t& bytes = memory.bytes[static_cast<size_t>(passing)];
    bytes = std::max(bytes, step->of(passing));
  }
  memory.total = std::max(memory.total, lasting + step->total);
  return memory;
}

StepWork ComposedSteps::work(int rank) {
  device::Recorder recorder;
  Rank one(*this, rank, {}, &recorder);
  StepWork work = one.step(false);
  work.add(recorder.total(), wire_bytes_by_kind(recorder.records()), 1);
  return work;
}

std::vector<device::Record> ComposedSteps::beside_passes(int rank) {
  device::Recorder recorder;
  Rank(*this, rank, {}, &recorder).step(false);
  return recorder.records();
}

}  // namespace megalith::account
