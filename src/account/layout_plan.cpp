// SPDX-License-Identifier: Apache-2.0
#include "account/layout_plan.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "account/composed_step.h"
#include "account/rank_classes.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"

namespace megalith::account {
namespace {

void add_snapshot(account::MemoryByClass& memory, int64_t bytes) {
  const int64_t rounded = round_up(bytes, device::kAlignment);
  memory.bytes[static_cast<size_t>(device::MemoryClass::snapshot)] += rounded;
  memory.total += rounded;  // it lies beside all else from the first step on
}

using KeyOf = FunctionRef<ClassKey(int rank)>;

/// By rank: the first with an equal key, which is traced for it.
std::vector<int> representatives(const parallel::Layout& layout, KeyOf key_of) {
  std::map<ClassKey, int> first;
  std::vector<int> of;
  for (int rank = 0; rank < layout.num_ranks(); ++rank)
    of.push_back(first.try_emplace(key_of(rank), rank).first->second);
  return of;
}

/// By representative. Traces are independent: one for each core at a time.
template <typename T>
std::map<int, T> traces_of(const std::vector<int>& representatives, FunctionRef<T(int rank)> trace,
                           const std::function<void()>& at_work = {}) {
  std::map<int, T> traces;
  for (const int rank : representatives) traces[rank];
  std::vector<std::pair<const int, T>*> entries;
  for (auto& entry : traces) entries.push_back(&entry);
  ThreadPool pool(std::min(available_cores(), static_cast<int>(entries.size())));
  pool.run([&](int thread) {
    for (size_t i = static_cast<size_t>(thread); i < entries.size();
         i += static_cast<size_t>(pool.num_threads())) {
      if (thread == 0 && at_work) at_work();
      entries[i]->second = trace(entries[i]->first);
    }
  });
  return traces;
}

/// By rank, without the snapshot; and who stands for whom.
struct Memories {
  std::vector<int> stand_for;
  std::map<int, MemoryByClass> of;
};

Memories memories_of(ComposedSteps& steps, RankClasses& classes, const parallel::Layout& layout,
                     BesideSteps beside, const std::function<void()>& at_work = {}) {
  beside.snapshot = false;  // added by rank
  Memories memories{representatives(layout, [&](int rank) { return classes.memory_key(rank); }),
                    {}};
  std::map<int, ClassKey> step_keys;
  for (const int rank : memories.stand_for) {
    if (!step_keys.contains(rank)) step_keys[rank] = classes.step_key(rank);
  }
  memories.of = traces_of<MemoryByClass>(
      memories.stand_for, [&](int rank) { return steps.memory(rank, beside, step_keys.at(rank)); },
      at_work);
  return memories;
}

/// Operations of (forward, backward) of every model chunk, by stage and chunk.
using ChunkOperations = std::vector<std::vector<std::array<double, 2>>>;

ChunkOperations operations_of_chunks(const engine::Settings& s, ChunkTapes& tapes) {
  ChunkOperations operations;
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    operations.emplace_back();
    int64_t layers = 0;  // of the chunks before
    for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
      const models::Stage model_chunk = engine::chunk_at(s, stage, chunk);
      const ChunkTape& tape = tapes.of(model_chunk, s.recompute.from(layers), 0);
      operations.back().push_back({tape.forward.work.flops, tape.backward.work.flops});
      layers += model_chunk.end - model_chunk.begin;
    }
  }
  return operations;
}

}  // namespace

std::vector<account::MemoryByClass> plan_memory(const engine::Settings& s,
                                                const device::Target& target,
                                                const BesideSteps& beside,
                                                const std::function<void()>& at_work) {
  RankClasses classes(s, beside);
  ComposedSteps steps(s, target);
  const Memories traced = memories_of(steps, classes, s.layout, beside, at_work);
  std::vector<account::MemoryByClass> memories;
  for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
    memories.push_back(traced.of.at(traced.stand_for[static_cast<size_t>(rank)]));
    add_snapshot(memories.back(), classes.snapshot_bytes(rank));
  }
  return memories;
}

LayoutPlan plan_layout(const engine::Settings& s, const device::Target& target,
                       const BesideSteps& beside) {
  LayoutPlan plan;
  RankClasses classes(s, beside);
  ComposedSteps steps(s, target);
  const Memories memories = memories_of(steps, classes, s.layout, beside);
  const std::vector<int> works_as =
      representatives(s.layout, [&](int rank) { return classes.work_key(rank); });
  const auto works = traces_of<StepWork>(works_as, [&](int rank) { return steps.work(rank); });
  std::map<std::tuple<int, int, int64_t>, size_t> known;
  for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
    const int like = memories.stand_for[static_cast<size_t>(rank)];
    const int works_like = works_as[static_cast<size_t>(rank)];
    const int64_t snapshot = classes.snapshot_bytes(rank);
    const auto [found, is_new] =
        known.try_emplace({like, works_like, snapshot}, plan.classes.size());
    plan.class_of.push_back(found->second);
    if (is_new) {
      const StepWork& step = works.at(works_like);
      RankPlan rank_class;
      rank_class.rank = rank;
      rank_class.stage = parallel::coordinates_of(s.layout, rank).pipeline;
      rank_class.memory = memories.of.at(like);
      add_snapshot(rank_class.memory, snapshot);
      rank_class.work = step.work;
      rank_class.wire_bytes = step.wire_bytes;
      plan.classes.push_back(rank_class);
    }
    ++plan.classes[found->second].alike;
  }

  const ChunkOperations operations = operations_of_chunks(s, steps.tapes());
  plan.micro_batches = micro_batches_per_shard(s);
  plan.timeline =
      parallel::simulate(steps.schedule(), [&](int stage, const parallel::Action& action) {
        const auto& passes =
            operations[static_cast<size_t>(stage)][static_cast<size_t>(action.chunk)];
        return passes[action.kind == parallel::ActionKind::forward ? 0 : 1];
      });
  const double busiest = *std::ranges::max_element(plan.timeline.busy);
  plan.bubble = plan.timeline.end / busiest - 1;
  for (RankPlan& rank_class : plan.classes)
    rank_class.idle_share =
        1 - plan.timeline.busy[static_cast<size_t>(rank_class.stage)] / plan.timeline.end;
  return plan;
}

}  // namespace megalith::account
