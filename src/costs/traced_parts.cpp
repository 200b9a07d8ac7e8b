// SPDX-License-Identifier: Apache-2.0
#include "costs/traced_parts.h"

#include "account/chunk_trace.h"
#include "account/composed_step.h"

namespace megalith::costs {
namespace {

/// Which kernels run, and their work, does not depend on the instruction set.
constexpr device::Target kTraced{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};

clusters::Cluster counting(const clusters::Cluster& cluster) {
  clusters::Cluster c = cluster;
  c.device.attention = {.forward = 1, .backward = 1, .depth = 0};
  return c;
}

/// One micro-batch of one chunk on one stage.
engine::Settings alone(engine::Settings s, layers::Recompute mode) {
  s.recompute = {mode, 0};
  s.layout.pipeline = 2;  // so that each end is one for itself
  s.layout.data = s.layout.chunks = 1;
  s.pipeline_schedule = parallel::ScheduleKind::one_forward_one_backward;
  s.split.data_shards = 1;
  return s;
}

PassTime pass_of(const RecordedTime& time) { return {time.kernels, time.wire}; }

}  // namespace

TracedParts::TracedParts(const engine::Settings& settings, const clusters::Cluster& cluster)
    : settings_(settings),
      counting_(counting(cluster)),
      counts_(settings, counting_),
      time_(cluster, product_type(settings)),
      tensor_{settings.layout.tensor, 1},
      all_{settings.layout.num_ranks(), 1} {}

Passes TracedParts::part(const models::Stage& stage, layers::Recompute mode) const {
  const auto trace = [&](layers::Recompute how) {
    return account::trace_chunk(alone(settings_, how), kTraced, stage);
  };
  const account::ChunkTrace kept = trace(layers::Recompute::none);
  Passes passes;
  passes.forward = pass_of(time_.of(kept.forward_records, tensor_));
  passes.backward = pass_of(time_.of(kept.backward_records, tensor_));
  if (mode == layers::Recompute::none) return passes;
  // What backward does more is what it does again.
  const PassTime more = pass_of(time_.of(trace(mode).backward_records, tensor_));
  passes.again = {more.compute - passes.backward.compute, more.wire - passes.backward.wire};
  return passes;
}

Passes TracedParts::counted(Passes passes, const Passes& counts) const {
  passes.weights = counts.weights;
  passes.model_flops = counts.model_flops;
  return passes;
}

Passes TracedParts::layer(int64_t layer, layers::Recompute mode) const {
  return counted(part({layer, layer + 1, false, false}, mode),
                 counts_.layer(settings_, layer, mode));
}

Passes TracedParts::embedding() const {
  return counted(part({0, 0, true, false}, layers::Recompute::none), counts_.embedding(settings_));
}

Passes TracedParts::head() const {
  const int64_t last = settings_.model.num_layers();
  return counted(part({last, last, false, true}, layers::Recompute::none), counts_.head(settings_));
}

UpdateTime TracedParts::update(int stage) const {
  account::ComposedSteps steps(settings_, kTraced);
  const int rank = parallel::rank_of(settings_.layout, {.pipeline = stage});
  const RecordedTime time = time_.of(steps.beside_passes(rank), all_);
  return {time.kernels, time.wire};
}

std::set<std::string> TracedParts::not_measured() const {
  std::set<std::string> names;
  const auto add = [&](const std::vector<device::Record>& records) {
    names.merge(time_.not_measured(records));
  };
  const int64_t last = settings_.model.num_layers();
  for (const models::Stage& stage :
       {models::Stage{0, 0, true, false}, {0, last, false, false}, {last, last, false, true}}) {
    const auto trace =
        account::trace_chunk(alone(settings_, settings_.recompute.mode), kTraced, stage);
    add(trace.forward_records);
    add(trace.backward_records);
  }
  account::ComposedSteps steps(settings_, kTraced);
  add(steps.beside_passes(0));
  return names;
}

}  // namespace megalith::costs
