// SPDX-License-Identifier: Apache-2.0
#include "costs/step_time.h"

#include <algorithm>
#include <tuple>

#include "engine/sharded_model.h"
#include "parallel/shared_timeline.h"

namespace megalith::costs {

using engine::Settings;

namespace {

Group data_group(const Settings& s) { return {s.layout.data, s.layout.tensor}; }
Group pipeline_group(const Settings& s) {
  return {s.layout.pipeline, static_cast<int64_t>(s.layout.tensor) * s.layout.data};
}

/// Between two stages, one way: each tensor rank sends its part, and where all need the whole they
/// gather it (Narayanan et al. 2021, section 4.1).
double transfer_seconds(const Settings& s, const clusters::Cluster& cluster, double element) {
  if (s.layout.pipeline == 1) return 0;
  const double bytes =
      static_cast<double>(s.micro_batch * s.sequence_length() * s.model.hidden) * element;
  double seconds = send_seconds(cluster, pipeline_group(s), bytes / s.layout.tensor);
  if (!s.sequence_parallel()) seconds += all_gather_seconds(cluster, {s.layout.tensor, 1}, bytes);
  return seconds * (1 - cluster.execution.pipeline_overlap);
}

}  // namespace

double StageTimes::busy(bool with_again) const {
  double seconds = 0;
  for (const Passes& chunk : chunks) {
    seconds += chunk.forward.total() + chunk.backward.total();
    if (with_again) seconds += chunk.again.total();
  }
  return seconds;
}

int64_t micro_batches_of(const Settings& s) {
  return s.batch.full / s.micro_batch / s.split.data_shards;
}

StepTimes::StepTimes(const Settings& settings, const clusters::Cluster& cluster)
    : cluster_(cluster) {
  const auto& layers = settings.model.layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t first = 0;
    while (!(layers[first] == layers[i]) ||
           settings.model.is_encoder_layer(static_cast<int64_t>(first)) !=
               settings.model.is_encoder_layer(static_cast<int64_t>(i)))
      ++first;
    kind_of_.push_back(static_cast<int64_t>(first));
  }
}

StepTimes::Key StepTimes::key_of(const Settings& s) const {
  return {s.layout.tensor,
          s.sequence_parallel() ? 1 : 0,
          s.micro_batch,
          static_cast<int64_t>(s.activations) * 2 + (s.fp8 ? 1 : 0),
          0,
          0,
          0};
}

const Passes& StepTimes::layer(const Settings& s, int64_t layer, layers::Recompute mode) {
  Key key = key_of(s);
  key[4] = 1 + kind_of_[static_cast<size_t>(layer)];
  key[5] = static_cast<int64_t>(mode);
  key[6] = s.is_fp8(layer) ? 1 : 0;
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  return parts_
      .try_emplace(key, is_traced() ? TracedParts(s, cluster_).layer(layer, mode)
                                    : PartTimes(s, cluster_).layer(s, layer, mode))
      .first->second;
}

const Passes& StepTimes::end(const Settings& s, bool head) {
  Key key = key_of(s);
  key[5] = head ? 1 : 0;
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  if (is_traced()) {
    const TracedParts times(s, cluster_);
    return parts_.try_emplace(key, head ? times.head() : times.embedding()).first->second;
  }
  const PartTimes times(s, cluster_);
  return parts_.try_emplace(key, head ? times.head(s) : times.embedding(s)).first->second;
}

UpdateTime StepTimes::update(const Settings& s, int stage) {
  const Key key{s.layout.tensor,
                s.layout.pipeline,
                s.layout.data,
                s.layout.chunks,
                s.sequence_parallel() ? 1 : 0,
                s.zero,
                s.fp8 ? 1 : 0,
                stage};
  const auto found = updates_.find(key);
  if (found != updates_.end()) return found->second;
  return updates_.try_emplace(key, TracedParts(s, cluster_).update(stage)).first->second;
}

std::vector<StageTimes> StepTimes::stages(const Settings& s) {
  std::vector<StageTimes> stages(static_cast<size_t>(s.layout.pipeline));
  const double element = s.activations == DType::f32 ? 4 : 2;
  const double transfer = transfer_seconds(s, cluster_, element);
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    StageTimes& times = stages[static_cast<size_t>(stage)];
    int64_t before = 0;  // layers of this stage
    for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
      const models::Stage part = engine::chunk_at(s, stage, chunk);
      Passes passes;
      if (part.has_embedding) passes += end(s, false);
      const Passes* last = nullptr;
      std::tuple<int64_t, layers::Recompute, bool> last_kind;
      for (int64_t i = part.begin; i < part.end; ++i) {
        const std::tuple now{kind_of_[static_cast<size_t>(i)],
                             s.recompute.of(before + i - part.begin), s.is_fp8(i)};
        if (last == nullptr || now != last_kind) last = &layer(s, i, std::get<1>(now));
        last_kind = now;
        passes += *last;
      }
      before += part.end - part.begin;
      if (part.has_head) passes += end(s, true);
      if (!part.has_head) passes.forward.wire += transfer;
      if (!part.has_embedding) passes.backward.wire += transfer;
      // The table of a tied head is on the last stage once more.
      if (part.has_head && !part.has_embedding && s.model.head.tied)
        passes.weights += end(s, false).weights;
      times.weights += passes.weights;
      times.chunks.push_back(passes);
    }
  }
  return stages;
}

/// What stands behind the last backward, by formulas.
void StepTimes::add_update(const Settings& s, const std::vector<StageTimes>& stages,
                           Breakdown& parts) {
  const clusters::ExecutionSection& execution = cluster_.execution;
  const double bandwidth = cluster_.device.bandwidth * cluster_.device.bandwidth_share;
  const auto data = static_cast<double>(s.layout.data);
  for (const StageTimes& stage : stages) {
    double forward = 0, backward = 0;  // of one micro-batch, beside which transfers may lie
    for (const Passes& chunk : stage.chunks) {
      forward += chunk.forward.total();
      backward += chunk.backward.total() + chunk.again.total();
    }
    const double hidden = execution.gradient_overlap;
    const double gradients = stage.weights * static_cast<double>(execution.gradient_bytes);
    double exposed = 0;
    if (s.zero > 0) {
      const double there = reduce_scatter_seconds(cluster_, data_group(s), gradients);
      const double back = all_gather_seconds(
          cluster_, data_group(s), stage.weights * static_cast<double>(bytes_of(s.weights)));
      exposed = std::max(0.0, there - hidden * backward) + std::max(0.0, back - hidden * forward);
    } else {
      exposed =
          std::max(0.0, all_reduce_seconds(cluster_, data_group(s), gradients) - hidden * backward);
    }
    const double owned = s.zero > 0 ? 1 / data : 1;
    const double update = stage.weights * ((execution.optimizer_bytes - 4) * owned + 4) / bandwidth;
    if (exposed + update > parts.gradients + parts.optimizer) {
      parts.gradients = exposed;
      parts.optimizer = update;
    }
  }
  if (s.layout.pipeline > 1 && s.model.head.tied) {
    // The table's gradients of both ends are added.
    const double table =
        static_cast<double>(s.model.padded_vocab(s.split.tensor_shards) * s.model.table_width()) /
        s.layout.tensor;
    parts.gradients += table * static_cast<double>(execution.gradient_bytes) /
                       link_of(cluster_, pipeline_group(s)).rate;
  }
}

StepTime StepTimes::finish(const Settings& s, const std::vector<StageTimes>& stages,
                           double pipeline_seconds) {
  const auto shards = static_cast<double>(s.shards_per_rank());
  const double count = shards * static_cast<double>(micro_batches_of(s));
  const auto busiest =
      std::ranges::max_element(stages, {}, [](const StageTimes& stage) { return stage.busy(); });
  const double sharing = cluster_.sharing(s.layout.num_ranks());
  // Ranks that wait lend their cores: on the whole the busiest is slowed by no more than its time.
  const double busy = count * busiest->busy();
  const double slowed = std::min(sharing, shards * pipeline_seconds / busy);
  StepTime step;
  Breakdown& parts = step.parts;
  for (const Passes& chunk : busiest->chunks) {
    parts.compute += slowed * count * (chunk.forward.compute + chunk.backward.compute);
    parts.recompute += slowed * count * chunk.again.total();
    parts.wire += slowed * count * (chunk.forward.wire + chunk.backward.wire);
  }
  parts.bubble = shards * pipeline_seconds - slowed * busy;
  for (const StageTimes& stage : stages) {
    for (const Passes& chunk : stage.chunks)
      step.model_flops += chunk.model_flops * count * static_cast<double>(s.layout.data);
  }
  if (is_traced()) {
    for (int stage = 0; stage < s.layout.pipeline; ++stage) {
      const UpdateTime time = update(s, stage);
      if (time.kernels + time.wire < parts.gradients + parts.optimizer) continue;
      parts.gradients = time.wire;
      parts.optimizer = time.kernels;
    }
  } else {
    add_update(s, stages, parts);
  }
  parts.gradients *= sharing;
  parts.optimizer *= sharing;
  step.seconds = parts.total();
  const auto type = s.fp8 ? clusters::ProductType::fp8 : product_type(s);
  step.mfu = step.model_flops / (s.layout.num_ranks() * cluster_.known(type).peak * step.seconds);
  return step;
}

StepTime StepTimes::least(const Settings& s) {
  const std::vector<StageTimes> all = stages(s);
  const auto count = static_cast<double>(micro_batches_of(s));
  double there = 0, seconds = 0;  // through the first chunks of the stages before, and back
  for (const StageTimes& stage : all) {
    seconds = std::max(seconds, there + count * stage.busy());
    const Passes& first = stage.chunks.front();
    there += first.forward.total() + first.backward.total() + first.again.total();
  }
  double work = 0;  // of all ranks of a pipeline, in the place of one that has its cores alone
  for (const StageTimes& stage : all) work += count * stage.busy();
  seconds = std::max(seconds, work * cluster_.sharing(s.layout.num_ranks()) /
                                  static_cast<double>(s.layout.pipeline));
  return finish(s, all, seconds);
}

StepTime StepTimes::simulated(const Settings& s, parallel::Timeline* timeline) {
  const std::vector<StageTimes> all = stages(s);
  const auto schedule =
      parallel::make_schedule(s.pipeline_schedule, s.layout.pipeline,
                              static_cast<int>(micro_batches_of(s)), s.layout.chunks);
  const auto seconds_of = [&](int stage, const parallel::Action& action) {
    const Passes& passes =
        all[static_cast<size_t>(stage)].chunks[static_cast<size_t>(action.chunk)];
    return action.kind == parallel::ActionKind::forward
               ? passes.forward.total()
               : passes.backward.total() + passes.again.total();
  };
  const double ranks_of_stage = s.layout.tensor * s.layout.data;
  parallel::Timeline run =
      cluster_.sharing(s.layout.num_ranks()) == 1
          ? parallel::simulate(schedule, seconds_of)
          : parallel::simulate_shared(schedule, seconds_of, [&](int computing) {
              return 1 / cluster_.sharing(computing * ranks_of_stage);
            });
  StepTime step = finish(s, all, run.end);
  if (timeline != nullptr) *timeline = std::move(run);
  return step;
}

}  // namespace megalith::costs
