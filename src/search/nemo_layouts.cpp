// SPDX-License-Identifier: Apache-2.0
#include "search/nemo_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "search/ranking.h"

namespace megalith::search {
namespace {

using engine::Settings;
using sizing::NemoCandidate;
using sizing::NemoFamily;
using sizing::NemoModel;

/// Above it the tool's base files have sequence parallelism.
constexpr double kMostWithoutSequence = 13;  // 10^9 parameters
constexpr double kMt5Vocab = 200'000;        // mT5's has 250,112 kinds, T5's 32,128

NemoFamily family_of(const Settings& s) {
  if (s.model.is_encoder_decoder())
    return static_cast<double>(s.model.vocab) < kMt5Vocab ? NemoFamily::t5 : NemoFamily::mt5;
  return s.model.is_causal() ? NemoFamily::gpt : NemoFamily::bert;
}

bool has_two_stacks(NemoFamily family) {
  return family == NemoFamily::t5 || family == NemoFamily::mt5;
}

/// How many micro-batches a stage holds at most: the window that `micro_batches` is of.
int64_t window(const NemoCandidate& c) {
  return c.chunks > 1 ? c.pipeline * (c.chunks - 1) + 2 * (c.pipeline - 1) + 1 : c.pipeline;
}

/// Layers recomputed in full of each stage, for all micro-batches; nothing where stages or
/// micro-batches differ.
std::optional<int64_t> full_layers(const NemoCandidate& c, const NemoModel& m) {
  const int64_t asked = c.layers.value_or(0);
  if (has_two_stacks(m.family)) {
    const int64_t of_stack = asked / 2;  // of each stack that a stage has
    if (c.pipeline > 1) return of_stack;
    if (of_stack == 0 || of_stack >= m.layers) return 2 * of_stack;
    return std::nullopt;
  }
  const bool is_whole =
      asked * c.chunks * c.pipeline == m.layers;  // so all micro-batches are alike
  if (!is_whole && c.micro_batches && *c.micro_batches < window(c)) return std::nullopt;
  if (asked > 0 && c.per_stage.value_or(0) > 0) return std::nullopt;
  return asked * c.chunks;
}

bool may_be(const Space& space, LayoutPoint point) {
  point.zero = 0;
  point.recompute = {};
  return std::ranges::find(space.points, point) != space.points.end();
}

NemoLayout layout_of(const Settings& base, const NemoModel& m, const Space& space,
                     const NemoCandidate& c) {
  NemoLayout layout{c};
  const int64_t ranks = c.tensor * c.pipeline;
  if (ranks > m.gpus || m.gpus % ranks != 0) {
    layout.fault = fmt::format("{} ranks of a model do not share {} GPUs", ranks, m.gpus);
    return layout;
  }
  const std::optional<int64_t> full = full_layers(c, m);
  if (!full) {
    layout.fault =
        "recomputes different layers in different stages or micro-batches, as no layout here does";
    return layout;
  }
  LayoutPoint p = point_of(base);
  p.tensor = static_cast<int>(c.tensor);
  p.pipeline = static_cast<int>(c.pipeline);
  p.data = static_cast<int>(m.gpus / ranks);
  p.chunks = static_cast<int>(c.chunks);
  p.schedule = c.chunks > 1 ? config::PipelineSchedule::interleaved
                            : config::PipelineSchedule::one_forward_one_backward;
  p.micro_batch = c.micro_batch;
  p.sequence = c.tensor > 1 && m.size > kMostWithoutSequence && !has_two_stacks(m.family);
  p.zero = p.data > 1 ? 1 : 0;
  if (m.block) {
    const bool is_all = *full * c.pipeline >= base.model.num_layers();
    p.recompute = {is_all ? layers::Recompute::full : layers::Recompute::none, is_all ? 0 : *full};
  }
  if (may_be(space, p)) {
    layout.point = p;
  } else {
    layout.fault = fmt::format(
        "not with the recipe's canonical split (parallel.tensor_shards {}, parallel.data_shards "
        "{}) and model",
        base.split.tensor_shards, base.split.data_shards);
  }
  return layout;
}

}  // namespace

NemoModel nemo_model(const Settings& base, double size, int64_t gpus, int memory_gb) {
  const models::ModelSpec& spec = base.model;
  NemoModel m;
  m.family = family_of(base);
  m.size = size > 0 ? size : std::round(static_cast<double>(spec.num_parameters()) / 1e7) / 100;
  m.layers = has_two_stacks(m.family) ? spec.encoder_layers : spec.num_layers();
  m.heads = spec.layer(0).attention.heads;
  m.sequence = base.sequence_length();
  m.global_batch = base.batch.full;
  m.gpus = gpus;
  m.memory_gb = memory_gb;
  m.block = has_two_stacks(m.family) || base.recompute.mode == layers::Recompute::full;
  return m;
}

std::vector<NemoLayout> nemo_layouts(const Settings& base, const NemoModel& model) {
  const Space space = space_of(base, model.gpus);
  std::vector<NemoLayout> all;
  for (const NemoCandidate& candidate : sizing::nemo_candidates(model))
    all.push_back(layout_of(base, model, space, candidate));
  return all;
}

std::vector<Candidate> judge_layouts(const Settings& base, const clusters::Cluster& cluster,
                                     const SearchOptions& options,
                                     std::span<const LayoutPoint> points) {
  cluster.known(costs::product_type(base));
  std::vector<Candidate> all;
  for (const LayoutPoint& point : points) {
    Candidate candidate;
    candidate.point = point;
    simulate(base, cluster, candidate);
    plan(base, options, candidate);
    all.push_back(std::move(candidate));
  }
  return all;
}

}  // namespace megalith::search
