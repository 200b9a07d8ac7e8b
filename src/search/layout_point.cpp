// SPDX-License-Identifier: Apache-2.0
#include "search/layout_point.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/integer.h"
#include "parallel/tree.h"
#include "precision/scaling.h"

namespace megalith::search {

using config::Compute;
using config::PipelineSchedule;
using engine::Settings;

bool operator==(const LayoutPoint& a, const LayoutPoint& b) {
  return a.is_variant_of(b) && a.sequence == b.sequence && a.zero == b.zero &&
         a.schedule == b.schedule && a.recompute.mode == b.recompute.mode &&
         a.recompute.full_layers == b.recompute.full_layers;
}

bool LayoutPoint::is_variant_of(const LayoutPoint& o) const {
  return tensor == o.tensor && pipeline == o.pipeline && data == o.data && chunks == o.chunks &&
         micro_batch == o.micro_batch && compute == o.compute;
}

std::string LayoutPoint::text() const {
  std::string text = fmt::format("tensor {} x pipeline {} x data {}", tensor, pipeline, data);
  if (chunks > 1) text += fmt::format(", {} chunks", chunks);
  if (schedule == PipelineSchedule::gpipe) text += ", gpipe";
  text += fmt::format(", micro-batch {}", micro_batch);
  if (sequence) text += ", sequence";
  text += fmt::format(", recompute {}", recompute.mode);
  if (recompute.full_layers > 0)
    text += fmt::format(" and {} layers of a stage full", recompute.full_layers);
  if (zero > 0) text += fmt::format(", zero {}", zero);
  return text + fmt::format(", {}", compute);
}

LayoutPoint point_of(const Settings& s) {
  return {.tensor = s.layout.tensor,
          .pipeline = s.layout.pipeline,
          .data = s.layout.data,
          .sequence = s.sequence_parallel(),
          .chunks = s.layout.chunks,
          .zero = s.zero,
          .micro_batch = s.micro_batch,
          .schedule = s.pipeline_schedule,
          .recompute = s.recompute,
          .compute = s.fp8                          ? Compute::fp8
                     : s.activations == DType::bf16 ? Compute::bf16
                     : s.activations == DType::f16  ? Compute::f16
                                                    : Compute::f32};
}

void move_to(Settings& s, const Settings& base, const LayoutPoint& p) {
  s.layout.tensor = p.tensor;
  s.layout.pipeline = p.pipeline;
  s.layout.data = p.data;
  s.layout.sequence = p.sequence;
  s.layout.chunks = p.chunks;
  s.zero = p.zero;
  s.micro_batch = p.micro_batch;
  s.pipeline_schedule = p.schedule;
  s.recompute = p.recompute;
  s.activations = p.compute == Compute::f32   ? DType::f32
                  : p.compute == Compute::f16 ? DType::f16
                                              : DType::bf16;
  s.fp8 = base.fp8;
  if (p.compute != Compute::fp8) s.fp8.reset();
  if (p.compute == Compute::fp8 && !s.fp8)
    s.fp8 =
        engine::Fp8Layers{{precision::ScalingOptions::of(precision::ScalingPolicy::delayed), true}};
  s.split.data_shards = base.split.data_shards == 1 ? p.data : base.split.data_shards;
}

Settings settings_at(const Settings& base, const LayoutPoint& point) {
  Settings s = base;
  move_to(s, base, point);
  return s;
}

config::Recipe recipe_at(config::Recipe r, const LayoutPoint& p) {
  r.parallel.tensor = p.tensor;
  r.parallel.pipeline = p.pipeline;
  r.parallel.data = p.data;
  r.parallel.sequence = p.sequence;
  r.parallel.chunks = p.chunks;
  r.parallel.zero = p.zero;
  r.parallel.schedule = p.schedule;
  if (r.parallel.data_shards == 1) r.parallel.data_shards = p.data;
  r.train.micro_batch = p.micro_batch;
  r.memory.recompute = p.recompute.mode;
  r.memory.recompute_layers = p.recompute.full_layers;
  r.precision.compute = p.compute;
  return r;
}

namespace {

struct Change {
  std::string text;
  int weight;
};

std::vector<Change> changes(const LayoutPoint& a, const LayoutPoint& b) {
  std::vector<Change> all;
  const auto add = [&](bool differs, std::string text, int weight = 1) {
    if (differs) all.push_back({std::move(text), weight});
  };
  add(a.tensor != b.tensor, fmt::format("parallel.tensor={}", b.tensor));
  add(a.pipeline != b.pipeline, fmt::format("parallel.pipeline={}", b.pipeline));
  add(a.data != b.data, fmt::format("parallel.data={}", b.data));
  add(a.sequence != b.sequence, fmt::format("parallel.sequence={}", b.sequence));
  add(a.chunks != b.chunks, fmt::format("parallel.chunks={}", b.chunks));
  add(a.schedule != b.schedule, fmt::format("parallel.schedule={}", settings::name_of(b.schedule)),
      0);
  add(a.zero != b.zero, fmt::format("parallel.zero={}", b.zero));
  add(a.micro_batch != b.micro_batch, fmt::format("train.micro_batch={}", b.micro_batch));
  add(a.recompute.mode != b.recompute.mode,
      fmt::format("memory.recompute={}", settings::name_of(b.recompute.mode)));
  add(a.recompute.full_layers != b.recompute.full_layers,
      fmt::format("memory.recompute_layers={}", b.recompute.full_layers));
  add(a.compute != b.compute, fmt::format("precision.compute={}", settings::name_of(b.compute)),
      10);
  return all;
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> found;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) found.push_back(d);
  }
  return found;
}

/// The points of one tensor x pipeline x data.
class Filler {
 public:
  Filler(const Settings& base, Space& space) : base_(base), space_(space) {}

  void fill(const LayoutPoint& at) {
    const int64_t shards = base_.split.data_shards == 1 ? at.data : base_.split.data_shards;
    if (!parallel::ranks_fit(narrow<int>(shards), at.data))
      return refuse(
          fmt::format("parallel.data_shards {} is not shared by {} data ranks in whole "
                      "subtrees; leave it 1",
                      shards, at.data));
    if (base_.batch.full % shards != 0)
      return refuse(fmt::format("train.global_batch {} is not a multiple of {} data ranks; {} is",
                                base_.batch.full, shards, round_up(base_.batch.full, shards)));
    for (const int64_t micro_batch : divisors(base_.batch.full / shards)) {
      LayoutPoint point = at;
      point.micro_batch = micro_batch;
      with_schedules(point);
    }
  }

 private:
  void refuse(const std::string& reason) { ++space_.refused[reason]; }

  void with_schedules(LayoutPoint point) {
    add(point);
    if (point.pipeline == 1) return;
    point.schedule = PipelineSchedule::gpipe;
    add(point);
    point.schedule = PipelineSchedule::interleaved;
    const int64_t layers = base_.model.num_layers();
    for (int chunks = 2; int64_t{chunks} * point.pipeline <= layers; ++chunks) {
      if (layers % (int64_t{chunks} * point.pipeline) != 0) continue;
      point.chunks = chunks;
      add(point);
    }
  }

  void add(LayoutPoint point) {
    space_.points.push_back(point);
    if (point.tensor == 1) return;
    if (base_.token_partials() != base_.split.tensor_shards) return;  // a sample is not divided
    point.sequence = true;
    space_.points.push_back(point);
  }

  const Settings& base_;
  Space& space_;
};

}  // namespace

int distance(const LayoutPoint& a, const LayoutPoint& b) {
  int sum = 0;
  for (const Change& change : changes(a, b)) sum += change.weight;
  return sum;
}

std::string changes_text(const LayoutPoint& from, const LayoutPoint& to) {
  std::vector<std::string> words;
  for (Change& change : changes(from, to)) words.push_back(std::move(change.text));
  return fmt::format("{}", fmt::join(words, " "));
}

Space space_of(const Settings& base, int64_t devices) {
  Space space;
  Filler filler(base, space);
  LayoutPoint at;
  at.compute = point_of(base).compute;
  for (const int64_t tensor : divisors(devices)) {
    const std::string fault =
        models::split_fault(base.model, base.split.tensor_shards, narrow<int>(tensor));
    if (!parallel::ranks_fit(base.split.tensor_shards, narrow<int>(tensor)) || !fault.empty()) {
      if (tensor <= 64)
        ++space.refused[fmt::format(
            "parallel.tensor_shards {} is not shared by {} tensor ranks in whole subtrees",
            base.split.tensor_shards, tensor)];
      continue;
    }
    for (const int64_t pipeline : divisors(devices / tensor)) {
      if (pipeline > base.model.num_layers()) {
        ++space.refused[fmt::format("more than {} stages need more than {} layers",
                                    base.model.num_layers(), base.model.num_layers())];
        continue;
      }
      at.tensor = narrow<int>(tensor);
      at.pipeline = narrow<int>(pipeline);
      at.data = narrow<int>(devices / tensor / pipeline);
      filler.fill(at);
    }
  }
  return space;
}

}  // namespace megalith::search
