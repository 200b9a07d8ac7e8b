// SPDX-License-Identifier: Apache-2.0
#include "search/memory_estimate.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "account/composed_step.h"
#include "account/layout_plan.h"
#include "comm/backends.h"
#include "engine/sharded_model.h"

namespace megalith::search {

using device::MemoryClass;
using engine::Settings;

MemoryEstimate::MemoryEstimate(const Settings& settings, const device::Target& target,
                               SchedulesInFlight& schedules)
    : target_(target),
      schedules_(schedules),
      is_uniform_(settings.model.is_uniform() && !settings.model.is_encoder_decoder() &&
                  (!settings.fp8 || settings.fp8->first_wide + settings.fp8->last_wide == 0)) {}

const MemoryEstimate::Part& MemoryEstimate::part(const Settings& s, const models::Stage& stage,
                                                 layers::Recompute mode) {
  const int64_t kind = stage.has_embedding && stage.has_head ? -3
                       : stage.has_embedding                 ? -1
                       : stage.has_head                      ? -2
                                                             : stage.begin;
  const Key key{s.layout.tensor,
                s.sequence_parallel() ? 1 : 0,
                s.micro_batch,
                kind,
                static_cast<int64_t>(mode),
                static_cast<int64_t>(s.activations),
                (s.fp8 ? 1 : 0) + (s.layout.pipeline > 1 ? 2 : 0),
                static_cast<int64_t>(s.weights)};
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  Settings one = s;
  one.recompute = {mode, 0};
  one.layout.pipeline = std::min(s.layout.pipeline, 2);  // alone, an end may be tied to the other
  one.layout.data = one.layout.chunks = 1;
  one.pipeline_schedule = parallel::ScheduleKind::one_forward_one_backward;
  one.split.data_shards = 1;
  const auto device = device::make_trace_device(target_);
  const auto world = comm::make_traced_communicator(*device, 0, one.layout.num_ranks());
  const account::ChunkTrace trace = account::pass_chunk(one, *device, *world, stage);
  const auto high = [&](MemoryClass c) { return device->arena(c).high_water(); };
  Part part;
  part.weights = high(MemoryClass::weights);
  part.masters = high(MemoryClass::optimizer);
  part.gradients = high(MemoryClass::gradients);
  // Two of f32 for each weight; a table that is tied has gradients of both sides.
  part.moments = 2 * (s.weights == s.masters ? part.weights : part.masters);
  part.kept = trace.kept_bytes;
  part.passing = account::memory_of(*device).total - part.weights - part.gradients - part.masters -
                 trace.kept_bytes;
  part.output = s.micro_batch * s.sequence_length() * s.model.hidden * bytes_of(s.activations) /
                (s.sequence_parallel() ? s.layout.tensor : 1);
  return parts_.try_emplace(key, part).first->second;
}

namespace {

/// Micro-batches whose repeats keep no more than these.
int steady_micro_batches(int micro_batches, int stages) {
  return micro_batches > 4 * stages ? 4 * stages + micro_batches % stages : micro_batches;
}

/// Of one stage's list, by chunk whose backward begins: counts of micro-batches in flight by chunk,
/// those alone that no other such moment has at least as many of in every chunk.
std::vector<SchedulesInFlight::Moments> most_in_flight(const std::vector<parallel::Action>& actions,
                                                       int chunks) {
  std::vector<SchedulesInFlight::Moments> most(static_cast<size_t>(chunks));
  std::vector<int> now(static_cast<size_t>(chunks), 0);
  const auto covers = [](const std::vector<int>& a, const std::vector<int>& b) {
    return std::ranges::equal(a, b, std::greater_equal<>());
  };
  for (const parallel::Action& action : actions) {
    const auto chunk = static_cast<size_t>(action.chunk);
    if (action.kind == parallel::ActionKind::forward) ++now[chunk];
    if (action.kind != parallel::ActionKind::backward) continue;
    SchedulesInFlight::Moments& moments = most[chunk];
    if (std::ranges::none_of(moments, [&](const auto& m) { return covers(m, now); })) {
      std::erase_if(moments, [&](const auto& m) { return covers(now, m); });
      moments.push_back(now);
    }
    --now[chunk];
  }
  return most;
}

}  // namespace

const SchedulesInFlight::Counts& SchedulesInFlight::of(int stages, int micro_batches, int chunks) {
  const std::lock_guard lock(mutex_);
  Counts& counts = known_[{stages, steady_micro_batches(micro_batches, stages), chunks}];
  if (!counts.empty()) return counts;
  const auto schedule =
      parallel::make_schedule(parallel::ScheduleKind::interleaved, stages,
                              steady_micro_batches(micro_batches, stages), chunks);
  for (const auto& actions : schedule) counts.push_back(most_in_flight(actions, chunks));
  return counts;
}

MemoryEstimate::OfChunk MemoryEstimate::peak(const Settings& s, int stage,
                                             const std::vector<OfChunk>& chunks) {
  const int micro_batches = account::micro_batches_per_shard(s);
  const int stages = s.layout.pipeline;
  if (s.layout.chunks == 1) {
    const bool is_gpipe = s.pipeline_schedule == parallel::ScheduleKind::gpipe;
    const int in_flight = is_gpipe ? micro_batches : std::min(micro_batches, stages - stage);
    return {in_flight * chunks[0].kept, chunks[0].passing};
  }
  const auto& moments = schedules_.of(stages, micro_batches, s.layout.chunks);
  OfChunk most;
  for (size_t at_work = 0; at_work < chunks.size(); ++at_work) {
    for (const std::vector<int>& moment : moments[static_cast<size_t>(stage)][at_work]) {
      OfChunk now{0, chunks[at_work].passing};
      for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
        now.kept += moment[chunk] * chunks[chunk].kept;
      if (now.kept + now.passing > most.kept + most.passing) most = now;
    }
  }
  return most;
}

MemoryOfStage MemoryEstimate::of_stage(const Settings& s, int stage) {
  int64_t weights = 0, gradients = 0, spread = 0, before = 0;
  std::vector<OfChunk> chunks;
  for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
    const models::Stage whole = engine::chunk_at(s, stage, chunk);
    OfChunk of_chunk;
    const auto take = [&](const Part& part) {
      weights += part.weights;
      gradients += part.gradients;
      spread += part.masters + part.moments;
      of_chunk.kept += part.kept;
      // When backward comes to a part, those behind it have given back what they kept.
      of_chunk.passing = std::max(of_chunk.passing - part.kept, part.passing + part.output);
    };
    if (whole.has_embedding && !whole.has_head)
      take(part(s, {0, 0, true, false}, s.recompute.mode));
    const Part* last_part = nullptr;
    std::pair<int64_t, layers::Recompute> last_kind;
    for (int64_t i = whole.begin; i < whole.end; ++i) {
      const int64_t kind = is_uniform_ ? 0 : i;
      const std::pair now{kind, s.recompute.of(before + i - whole.begin)};
      if (last_part == nullptr || now != last_kind)
        last_part = &part(s, {kind, kind + 1, false, false}, now.second);
      last_kind = now;
      take(*last_part);
    }
    before += whole.end - whole.begin;
    const int64_t last = s.model.num_layers();
    if (whole.has_head && whole.has_embedding) {
      take(part(s, {last, last, true, true}, s.recompute.mode));
    } else if (whole.has_head) {
      take(part(s, {last, last, false, true}, s.recompute.mode));
    }
    chunks.push_back(of_chunk);
  }
  MemoryOfStage memory;
  memory.stage = stage;
  const int64_t owners = s.zero > 0 ? s.layout.data : 1;
  memory.state = weights + gradients + spread / owners;
  const OfChunk most = peak(s, stage, chunks);
  memory.activations = most.kept;
  const int64_t buckets = s.layout.data > 1 ? 2 * 4 * s.bucket_elements : 0;
  memory.passing = most.passing + std::min(buckets, 2 * gradients);
  return memory;
}

/// Its stages hold parts of two stacks of different lengths: it is planned whole.
MemoryOfStage MemoryEstimate::of_two_stacks(const Settings& s) const {
  const auto ranks = account::plan_memory(s, target_, {});
  MemoryOfStage most;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const account::MemoryByClass& memory = ranks[rank];
    if (memory.total <= most.total()) continue;
    most.stage = parallel::coordinates_of(s.layout, static_cast<int>(rank)).pipeline;
    most.state = memory.of(MemoryClass::weights) + memory.of(MemoryClass::gradients) +
                 memory.of(MemoryClass::optimizer);
    most.activations = std::min(memory.of(MemoryClass::activations), memory.total - most.state);
    most.passing = memory.total - most.state - most.activations;
  }
  return most;
}

MemoryOfStage MemoryEstimate::of(const Settings& s) {
  if (s.model.is_encoder_decoder()) return of_two_stacks(s);
  // Earlier stages have most in flight and as many layers as any; the last has the head.
  MemoryOfStage most = of_stage(s, 0);
  for (const int stage : {1, s.layout.pipeline - 1}) {
    if (stage < 1 || stage >= s.layout.pipeline) continue;
    const MemoryOfStage other = of_stage(s, stage);
    if (other.total() > most.total()) most = other;
  }
  return most;
}

}  // namespace megalith::search
