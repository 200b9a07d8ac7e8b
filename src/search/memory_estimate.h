// SPDX-License-Identifier: Apache-2.0
// Bytes of a layout out of traces of single layers and of the ends: what a layer keeps, times the
// micro-batches in flight by the schedule, beside weights, gradients and optimizer state. Each
// trace is a run of the model's own code (account/chunk_trace.h) and serves all layouts with the
// same tensor ranks and micro-batch, so thousands are estimated in seconds. What the allocator
// loses between objects is not in it: the best candidates are planned to the byte
// (account/layout_plan.h).
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "account/chunk_trace.h"
#include "engine/settings.h"

namespace megalith::search {

struct MemoryOfStage {
  int stage = 0;
  int64_t state = 0;        // weights, gradients, masters, moments
  int64_t activations = 0;  // kept for backward at the schedule's peak
  int64_t passing = 0;      // of the pass at work, and scratch
  int64_t total() const { return state + activations + passing; }
};

/// How many micro-batches interleaved schedules have in flight: [stage][chunk whose backward
/// begins], the moments that have most, by chunk. Any thread may ask.
class SchedulesInFlight {
 public:
  using Moments = std::vector<std::vector<int>>;
  using Counts = std::vector<std::vector<Moments>>;
  const Counts& of(int stages, int micro_batches, int chunks);

 private:
  std::mutex mutex_;
  std::map<std::array<int, 3>, Counts> known_;
};

/// Of one model and length of samples. Of one thread at a time.
class MemoryEstimate {
 public:
  /// Of settings with this model; `schedules` must outlive this.
  MemoryEstimate(const engine::Settings& settings, const device::Target& target,
                 SchedulesInFlight& schedules);

  /// The stage that takes most.
  MemoryOfStage of(const engine::Settings& settings);

 private:
  /// One layer, or an end, of a micro-batch on one rank.
  struct Part {
    int64_t weights = 0, gradients = 0;  // bytes
    int64_t masters = 0, moments = 0;    // without spreading
    int64_t kept = 0;                    // from forward to backward
    int64_t passing = 0;                 // more than that at any moment
    int64_t output = 0;
  };
  using Key = std::array<int64_t, 8>;
  const Part& part(const engine::Settings& settings, const models::Stage& stage,
                   layers::Recompute mode);
  MemoryOfStage of_stage(const engine::Settings& settings, int stage);
  MemoryOfStage of_two_stacks(const engine::Settings& settings) const;
  /// What a chunk's micro-batch keeps from forward to backward, and what its backward takes beside.
  struct OfChunk {
    int64_t kept = 0, passing = 0;
  };
  /// Both at the moment with most of them.
  OfChunk peak(const engine::Settings& settings, int stage, const std::vector<OfChunk>& chunks);
  device::Target target_;
  SchedulesInFlight& schedules_;
  bool is_uniform_;
  std::map<Key, Part> parts_;
};

}  // namespace megalith::search
