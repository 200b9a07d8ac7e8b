// SPDX-License-Identifier: Apache-2.0
#include "account/layout_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "account/piece_trace.h"
#include "account/rank_kinds.h"
#include "account/traced_step.h"
#include "base/thread_pool.h"
#include "comm/backends.h"
#include "models/decoder.h"

namespace megalith::account {
namespace {

/// More memories than these are not traced one by one.
constexpr size_t kMostTraced = 512;

int micro_batches_per_shard(const engine::Settings& s) {
  return narrow<int>(s.batch.full / s.micro_batch / s.split.data_shards);
}

/// A step of `micro_batches` per data shard.
account::Plan step_of(engine::Settings s, const device::Target& target, int rank,
                      int micro_batches) {
  s.batch = {s.micro_batch * s.split.data_shards * micro_batches, 0, 0, 0};
  return account::trace(target, [&](device::Device& device) {
    const auto world = comm::make_traced_communicator(device, rank, s.layout.num_ranks());
    traced_step(s, device, *world, {});
  });
}

struct StepWork {
  device::Work work;
  std::map<std::string, int64_t> wire_bytes;
};

/// a + n (b - a)
template <typename T>
T continued(T a, T b, int n) {
  return a + static_cast<T>(n) * (b - a);
}

StepWork work_of(const engine::Settings& s, const device::Target& target, int rank) {
  const int more = micro_batches_per_shard(s) - 1;
  const account::Plan one = step_of(s, target, rank, 1);
  const account::Plan two = more == 0 ? one : step_of(s, target, rank, 2);
  const device::Work &a = one.work, &b = two.work;
  StepWork result{
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

account::MemoryByClass memory_of(const engine::Settings& s, const device::Target& target, int rank,
                                 BesideSteps beside) {
  beside.snapshot = false;  // added by rank
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, rank, s.layout.num_ranks());
  traced_step(s, *device, *world, beside);
  return account::memory_of(*device);
}

void add_snapshot(account::MemoryByClass& memory, int64_t bytes) {
  const int64_t rounded = round_up(bytes, device::kAlignment);
  memory.bytes[static_cast<size_t>(device::MemoryClass::snapshot)] += rounded;
  memory.total += rounded;  // it lies beside all else from the first step on
}

/// At least what any rank takes that takes no more of each class than one of the two: ranks have
/// their peaks at different times, so the peaks of all classes are taken to meet.
account::MemoryByClass bound_of(const account::MemoryByClass& a, const account::MemoryByClass& b) {
  account::MemoryByClass bound;
  for (size_t i = 0; i < bound.bytes.size(); ++i) {
    bound.bytes[i] = std::max(a.bytes[i], b.bytes[i]);
    bound.total += bound.bytes[i];
  }
  return bound;
}

/// The ranks, and which of them stands for each.
struct Representatives {
  std::vector<int> of;            // by rank
  std::map<int, int> bounded_by;  // of a representative: the other that it is planned with, if any
  bool is_exact = true;
};

/// Each rank's first with an equal key.
template <typename KeyOf>
std::vector<int> first_with_key(const std::vector<int>& ranks, KeyOf key_of) {
  std::map<KindKey, int> first;
  std::vector<int> of;
  for (const int rank : ranks) of.push_back(first.try_emplace(key_of(rank), rank).first->second);
  return of;
}

size_t num_distinct(std::vector<int> values) {
  std::ranges::sort(values);
  return static_cast<size_t>(std::ranges::unique(values).begin() - values.begin());
}

/// For each stage the rank that owns most and the one that collects most for a save.
Representatives largest_of_stages(const engine::Settings& s, const BesideSteps& beside,
                                  RankKinds& kinds) {
  Representatives result{{}, {}, false};
  std::vector<int> of_stage;
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    const int owner = of_stage.emplace_back(kinds.largest_owner(stage));
    result.bounded_by[owner] = beside.saves ? kinds.largest_collector(stage) : owner;
  }
  for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
    const int stage = parallel::coordinates_of(s.layout, rank).pipeline;
    result.of.push_back(of_stage[static_cast<size_t>(stage)]);
  }
  return result;
}

Representatives representatives(const engine::Settings& s, const BesideSteps& beside,
                                RankKinds& kinds) {
  std::vector<int> all(static_cast<size_t>(s.layout.num_ranks()));
  std::iota(all.begin(), all.end(), 0);
  const Representatives result{
      first_with_key(all, [&](int rank) { return kinds.memory_key(rank); }), {}, true};
  return num_distinct(result.of) <= kMostTraced ? result : largest_of_stages(s, beside, kinds);
}

/// By representative. Traces are independent: one for each core at a time.
std::map<int, account::MemoryByClass> traced_memories(const engine::Settings& s,
                                                      const device::Target& target,
                                                      const BesideSteps& beside,
                                                      const Representatives& representatives,
                                                      const std::function<void()>& at_work = {}) {
  std::map<int, account::MemoryByClass> memories;
  for (const int rank : representatives.of) memories[rank];
  for (const auto& [rank, with] : representatives.bounded_by) memories[with];
  std::vector<std::pair<const int, account::MemoryByClass>*> entries;
  for (auto& entry : memories) entries.push_back(&entry);
  ThreadPool pool(std::min(available_cores(), static_cast<int>(entries.size())));
  pool.run([&](int thread) {
    for (size_t i = static_cast<size_t>(thread); i < entries.size();
         i += static_cast<size_t>(pool.num_threads())) {
      if (thread == 0 && at_work) at_work();
      entries[i]->second = memory_of(s, target, entries[i]->first, beside);
    }
  });
  for (const auto& [rank, with] : representatives.bounded_by)
    memories[rank] = bound_of(memories[rank], memories[with]);
  return memories;
}

/// Operations of (forward, backward) of every piece, by stage and chunk.
using PieceOperations = std::vector<std::vector<std::array<double, 2>>>;

PieceOperations operations_of_pieces(const engine::Settings& s, const device::Target& target) {
  std::map<KindKey, std::array<double, 2>> known;
  PieceOperations operations;
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    operations.emplace_back();
    for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
      const models::Stage piece = piece_at(s, stage, chunk);
      KindKey key{piece.end - piece.begin, piece.has_embedding ? 1 : 0, piece.has_head ? 1 : 0};
      if (!s.model.is_uniform()) key.push_back(piece.begin);
      if (!known.contains(key)) {
        const PieceTrace trace = trace_piece(s, target, piece);
        known[key] = {trace.forward.flops, trace.backward.flops};
      }
      operations.back().push_back(known[key]);
    }
  }
  return operations;
}

}  // namespace

std::vector<account::MemoryByClass> plan_memory(const engine::Settings& s,
                                                const device::Target& target,
                                                const BesideSteps& beside,
                                                const std::function<void()>& at_work) {
  RankKinds kinds(s, beside);
  const Representatives stand_for = representatives(s, beside, kinds);
  const auto traced = traced_memories(s, target, beside, stand_for, at_work);
  std::vector<account::MemoryByClass> memories;
  for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
    memories.push_back(traced.at(stand_for.of[static_cast<size_t>(rank)]));
    add_snapshot(memories.back(), kinds.snapshot_bytes(rank));
  }
  return memories;
}

LayoutPlan plan_layout(const engine::Settings& s, const device::Target& target,
                       const BesideSteps& beside) {
  LayoutPlan plan;
  RankKinds kinds(s, beside);
  const Representatives stand_for = representatives(s, beside, kinds);
  plan.is_exact = stand_for.is_exact;
  const auto memories = traced_memories(s, target, beside, stand_for);
  std::map<KindKey, StepWork> works;
  std::map<std::pair<KindKey, std::pair<int, int64_t>>, size_t> known;
  for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
    const int traced = stand_for.of[static_cast<size_t>(rank)];
    const int like = plan.is_exact ? rank : traced;
    const KindKey work_key = kinds.work_key(like);
    const int64_t snapshot = kinds.snapshot_bytes(rank);
    const auto [found, is_new] =
        known.try_emplace({work_key, {traced, snapshot}}, plan.kinds.size());
    plan.kind_of.push_back(found->second);
    if (is_new) {
      if (!works.contains(work_key)) works[work_key] = work_of(s, target, like);
      RankPlan kind;
      kind.rank = rank;
      kind.stage = parallel::coordinates_of(s.layout, rank).pipeline;
      kind.memory = memories.at(traced);
      add_snapshot(kind.memory, snapshot);
      kind.work = works[work_key].work;
      kind.wire_bytes = works[work_key].wire_bytes;
      plan.kinds.push_back(kind);
    }
    ++plan.kinds[found->second].alike;
  }

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
  for (RankPlan& kind : plan.kinds)
    kind.idle_share = 1 - plan.timeline.busy[static_cast<size_t>(kind.stage)] / plan.timeline.end;
  return plan;
}

}  // namespace megalith::account
