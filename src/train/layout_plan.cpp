// SPDX-License-Identifier: Apache-2.0
#include "train/layout_plan.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/thread_pool.h"
#include "comm/backends.h"
#include "models/decoder.h"
#include "train/piece_trace.h"
#include "train/traced_step.h"

namespace megalith::train {
namespace {

/// What makes the work of two stages differ: blocks by chunk, and what stands at the ends.
struct StageKind {
  std::vector<int64_t> layers;
  bool first, last;
  auto operator<=>(const StageKind&) const = default;
};

models::Stage piece_at(const Settings& s, int stage, int chunk) {
  return models::Stage::part(s.architecture, parallel::piece_of(s.layout, stage, chunk),
                             s.layout.pipeline * s.layout.chunks);
}

StageKind kind_of(const Settings& s, int stage) {
  StageKind kind{{}, stage == 0, stage == s.layout.pipeline - 1};
  for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
    const models::Stage piece = piece_at(s, stage, chunk);
    kind.layers.push_back(piece.end - piece.begin);
  }
  return kind;
}

int rank_of_stage(const Settings& s, int stage) {
  return parallel::rank_of(s.layout, {.tensor = 0, .pipeline = stage, .data = 0});
}

int micro_batches_per_shard(const Settings& s) {
  return narrow<int>(s.batch.full / s.micro_batch / s.split.data_shards);
}

/// A step of `micro_batches` per data shard.
account::Plan step_of(Settings s, const device::Target& target, int stage, int micro_batches) {
  s.batch = {s.micro_batch * s.split.data_shards * micro_batches, 0, 0, 0};
  return account::trace(target, [&](device::Device& device) {
    const int rank = rank_of_stage(s, stage);
    const auto world = comm::make_traced_communicator(device, rank, s.layout.num_ranks());
    traced_step(s, device, *world, {});
  });
}

struct StageWork {
  device::Work work;
  std::map<std::string, int64_t> wire_bytes;
};

/// a + n (b - a)
template <typename T>
T continued(T a, T b, int n) {
  return a + static_cast<T>(n) * (b - a);
}

StageWork work_of_stage(const Settings& s, const device::Target& target, int stage) {
  const int more = micro_batches_per_shard(s) - 1;
  const account::Plan one = step_of(s, target, stage, 1);
  const account::Plan two = more == 0 ? one : step_of(s, target, stage, 2);
  const device::Work &a = one.work, &b = two.work;
  StageWork result{
      {continued(a.flops, b.flops, more), continued<int64_t>(a.bytes_read, b.bytes_read, more),
       continued<int64_t>(a.bytes_written, b.bytes_written, more),
       continued<int64_t>(a.bytes_wire, b.bytes_wire, more)},
      {}};
  const auto first = wire_bytes_by_kind(one.records);
  for (const auto& [kind, bytes] : wire_bytes_by_kind(two.records)) {
    const auto found = first.find(kind);
    result.wire_bytes[kind] =
        continued<int64_t>(found == first.end() ? 0 : found->second, bytes, more);
  }
  return result;
}

account::MemoryByClass memory_of_stage(const Settings& s, const device::Target& target, int stage,
                                       const BesideSteps& beside) {
  const auto device = device::make_trace_device(target);
  const auto world =
      comm::make_traced_communicator(*device, rank_of_stage(s, stage), s.layout.num_ranks());
  traced_step(s, *device, *world, beside);
  return account::memory_of(*device);
}

/// Operations of (forward, backward) of every piece, by stage and chunk.
using PieceOperations = std::vector<std::vector<std::array<double, 2>>>;

PieceOperations operations_of_pieces(const Settings& s, const device::Target& target) {
  std::map<std::tuple<int64_t, bool, bool>, std::array<double, 2>> known;
  PieceOperations operations;
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    operations.emplace_back();
    for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
      const models::Stage piece = piece_at(s, stage, chunk);
      const std::tuple key{piece.end - piece.begin, piece.has_embedding, piece.has_head};
      if (!known.contains(key)) {
        const PieceTrace trace =
            trace_piece(s, target, piece.end - piece.begin, piece.has_embedding, piece.has_head);
        known[key] = {trace.forward.flops, trace.backward.flops};
      }
      operations.back().push_back(known[key]);
    }
  }
  return operations;
}

}  // namespace

LayoutPlan plan_layout(const Settings& s, const device::Target& target, const BesideSteps& beside) {
  LayoutPlan plan;
  plan.stages.resize(static_cast<size_t>(s.layout.pipeline));
  std::map<StageKind, StageWork> works;
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    const StageKind kind = kind_of(s, stage);
    if (!works.contains(kind)) works[kind] = work_of_stage(s, target, stage);
    StagePlan& result = plan.stages[static_cast<size_t>(stage)];
    result.rank = rank_of_stage(s, stage);
    result.stage = stage;
    result.work = works[kind].work;
    result.wire_bytes = works[kind].wire_bytes;
  }
  ThreadPool pool(std::min(available_cores(), s.layout.pipeline));
  pool.run([&](int thread) {
    for (int stage = thread; stage < s.layout.pipeline; stage += pool.num_threads()) {
      plan.stages[static_cast<size_t>(stage)].memory = memory_of_stage(s, target, stage, beside);
    }
  });

  const PieceOperations operations = operations_of_pieces(s, target);
  plan.micro_batches = micro_batches_per_shard(s);
  const auto schedule = parallel::make_schedule(s.pipeline_schedule, s.layout.pipeline,
                                                plan.micro_batches, s.layout.chunks);
  plan.timeline = parallel::simulate(schedule, [&](int stage, const parallel::Action& action) {
    const auto& passes = operations[static_cast<size_t>(stage)][static_cast<size_t>(action.chunk)];
    return passes[action.kind == parallel::ActionKind::forward ? 0 : 1];
  });
  const double busiest = *std::ranges::max_element(plan.timeline.busy);
  plan.bubble = plan.timeline.end / busiest - 1;
  for (StagePlan& stage : plan.stages) {
    stage.idle_share = 1 - plan.timeline.busy[static_cast<size_t>(stage.stage)] / plan.timeline.end;
  }
  return plan;
}

}  // namespace megalith::train
