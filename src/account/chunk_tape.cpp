// SPDX-License-Identifier: Apache-2.0
#include "account/chunk_tape.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/function_ref.h"
#include "comm/backends.h"

namespace megalith::account {

namespace {

/// Listens to a device's activations and workspace; other classes do not change during a pass.
class TapeRecorder final : public device::ArenaObserver {
 public:
  explicit TapeRecorder(device::Device& device) : device_(device) {
    for (const auto memory_class : kClasses) device.arena(memory_class).set_observer(this);
  }
  ~TapeRecorder() override {
    for (const auto memory_class : kClasses) device_.arena(memory_class).set_observer(nullptr);
  }
  TapeRecorder(const TapeRecorder&) = delete;
  TapeRecorder& operator=(const TapeRecorder&) = delete;

  PassTape record(FunctionRef<void()> pass) {
    PassTape tape;
    device::Recorder recorder;
    tape_ = &tape;
    device_.set_recorder(&recorder);
    pass();
    device_.set_recorder(nullptr);
    tape_ = nullptr;
    tape.work = recorder.total();
    tape.wire_bytes = wire_bytes_by_kind(recorder.records());
    return tape;
  }
  void completed(size_t turn) { tape_->events.push_back({PassTape::Kind::completed, {}, turn, 0}); }
  /// Objects from here on count from 0.
  size_t take_count() { return std::exchange(count_, 0); }
  size_t object_at(device::MemoryClass memory_class, int64_t offset) const {
    return live_.at({memory_class, offset});
  }

  void allocated(device::MemoryClass memory_class, int64_t offset, int64_t bytes) override {
    live_[{memory_class, offset}] = count_;
    if (tape_ != nullptr)
      tape_->events.push_back({PassTape::Kind::allocate, memory_class, count_, bytes});
    ++count_;
  }
  void freed(device::MemoryClass memory_class, int64_t offset) override {
    const auto node = live_.extract({memory_class, offset});
    if (tape_ != nullptr)
      tape_->events.push_back({PassTape::Kind::release, memory_class, node.mapped(), 0});
  }

 private:
  static constexpr std::array kClasses{device::MemoryClass::activations,
                                       device::MemoryClass::workspace};
  device::Device& device_;
  PassTape* tape_ = nullptr;
  size_t count_ = 0;
  std::map<std::pair<device::MemoryClass, int64_t>, size_t> live_;
};

ChunkTape record_chunk(const engine::Settings& settings, const device::Target& target, int rank,
                       const models::Stage& stage) {
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, rank, settings.layout.num_ranks());
  // Where the arena begins, which is empty.
  const std::byte* const activations =
      device->arena(device::MemoryClass::activations).allocate(0).data();
  ChunkPasses passes(settings, *device, *world, stage);
  TapeRecorder recorder(*device);
  ChunkTape chunk;
  chunk.batch = recorder.record([&] { passes.place_batch(); });
  chunk.batch_objects = recorder.take_count();
  if (!stage.has_embedding) chunk.input = recorder.record([&] { passes.input(); });
  chunk.forward = recorder.record([&] { passes.forward(); });
  chunk.output =
      recorder.object_at(device::MemoryClass::activations, passes.output().data() - activations);
  chunk.output_bytes = passes.output().bytes();
  chunk.place_gradient = recorder.record([&] { passes.place_gradient(); });
  chunk.gradient_bytes = passes.input_gradient().bytes();
  chunk.backward = recorder.record([&] {
    size_t turn = 0;
    passes.backward([&](const parameters::ParameterRun&) { recorder.completed(turn++); });
  });
  chunk.objects = recorder.take_count();
  return chunk;
}

}  // namespace

ChunkTapes::ChunkTapes(const engine::Settings& settings, const device::Target& target)
    : settings_(settings),
      target_(target),
      layer_kinds_(layer_kinds(settings)),
      tensor_ranks_are_alike_(tensor_ranks_are_alike(settings)) {}

const ChunkTape& ChunkTapes::of(const models::Stage& stage,
                                const layers::RecomputePolicy& recompute, int tensor_rank) {
  const int64_t layers = stage.end - stage.begin;
  const int tensor = tensor_ranks_are_alike_ ? 0 : tensor_rank;
  ClassKey key{stage.has_embedding ? 1 : 0, stage.has_head ? 1 : 0, tensor,
               static_cast<int64_t>(recompute.mode), std::min(recompute.full_layers, layers)};
  append_layers(settings_, layer_kinds_, stage, key);
  const std::lock_guard lock(mutex_);
  const auto found = tapes_.find(key);
  if (found != tapes_.end()) return found->second;
  engine::Settings settings = settings_;
  settings.recompute = recompute;
  const int rank = parallel::rank_of(settings.layout, {.tensor = tensor});
  return tapes_.try_emplace(key, record_chunk(settings, target_, rank, stage)).first->second;
}

}  // namespace megalith::account
