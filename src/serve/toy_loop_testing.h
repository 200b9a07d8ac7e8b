// SPDX-License-Identifier: Apache-2.0
// Tests only: a loop of the engine over a small model with random weights, on its own threads.
#pragma once

#include <optional>
#include <thread>

#include "comm/backends.h"
#include "generate/generator.h"
#include "inference/inference_model.h"
#include "serve/engine_loop.h"
#include "testing/toy_model.h"

namespace megalith::serve {

inline constexpr int64_t kToyContext = 128;

inline models::ModelSpec toy_spec() {
  models::ModelSpec spec =
      testing::toy_family_settings(models::family_named("llama", "test")).model;
  spec.context = kToyContext;
  spec.dropout = 0;
  return spec;
}

inline void fill_toy(inference::InferenceModel& model, device::Device& device) {
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    for (float& value : values) value *= 3;  // so that what comes next is not all alike
    device.wait(device.copy_to_device(parameter.mutable_compute(), values.data()));
  }
}

/// What events came, by ticket.
class Inbox {
 public:
  void take(std::vector<Event> events) {
    const std::lock_guard lock(mutex_);
    for (Event& event : events) events_.push_back(std::move(event));
    came_.notify_all();
  }
  /// Waits for an event of this kind and ticket; empties nothing.
  Event wait(uint64_t ticket, Event::Kind kind, size_t sequence = 0) {
    std::unique_lock lock(mutex_);
    const Event* found = nullptr;
    const bool came = came_.wait_for(lock, std::chrono::seconds(60), [&] {
      for (const Event& event : events_)
        if (event.ticket == ticket && event.kind == kind && event.sequence == sequence)
          found = &event;
      return found != nullptr;
    });
    if (!came) throw SystemError("no event of ticket {}", ticket);
    return *found;
  }
  size_t count(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const Event& event : events_) count += event.ticket == ticket ? 1 : 0;
    return count;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Event> events_;
};

/// The loop runs while it lives.
class ToyLoop {
 public:
  /// A draft model, if the options want its guesses, is the same model.
  explicit ToyLoop(const EngineLoop::Options& options, const parallel::Layout& layout = {})
      : loop(options), thread_([this, layout, drafts = options.draft > 0] {
          comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
            const auto device = device::make_cpu_device(1);
            inference::InferenceModel model(toy_spec(), *device, world,
                                            {.tensor_shards = 2, .layout = layout});
            fill_toy(model, *device);
            std::optional<inference::InferenceModel> guesser;
            if (drafts) {
              guesser.emplace(
                  toy_spec(), *device, world,
                  inference::InferenceModel::Options{.tensor_shards = 2, .layout = layout});
              fill_toy(*guesser, *device);
            }
            inference::InferenceEngine* const draft = drafts ? &guesser->engine() : nullptr;
            if (world.rank() == 0) {
              loop.lead(
                  model.engine(), nullptr,
                  [this](std::vector<Event> events) {
                    if (between_passes) between_passes(events);
                    inbox.take(std::move(events));
                  },
                  draft);
            } else {
              loop.follow(world.rank() - 1, model.engine(), nullptr, draft);
            }
          });
        }) {}
  ~ToyLoop() {
    loop.stop();
    thread_.join();
  }
  Inbox inbox;
  /// Called by the leading thread; to be set before anything is submitted.
  std::function<void(const std::vector<Event>&)> between_passes;
  EngineLoop loop;

 private:
  std::thread thread_;
};

inline EngineLoop::Options toy_options(int64_t sequences, int64_t queued) {
  return {
      .generator = {.limits = {.sequences = sequences, .tokens = 64},
                    .blocks = std::vector<int64_t>(inference::kv_groups(toy_spec()).size(), 64)},
      .most_queued = queued};
}

inline protocols::PreparedSequence toy_sequence(int first, int64_t new_tokens, double temperature) {
  protocols::PreparedSequence sequence;
  for (int i = 0; i < 20; ++i) sequence.prompt.push_back((first * 7 + i) % 50);
  sequence.options.max_new_tokens = new_tokens;
  sequence.options.sampling.temperature = temperature;
  sequence.options.sampling.seed = static_cast<uint64_t>(first);
  sequence.options.top_logprobs = 2;
  return sequence;
}

}  // namespace megalith::serve
