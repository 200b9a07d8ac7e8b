// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sizing/nemo_grid.h"

namespace megalith::sizing {
namespace {

using Setting = std::optional<int64_t>;

/// How the recomputed layers of one number of stages are tried.
struct Recomputed {
  int64_t chunks = 1;
  std::vector<Setting> layers = {std::nullopt};
  std::vector<Setting> micro_batches = {std::nullopt};
  std::vector<Setting> per_stage = {std::nullopt};
};

std::vector<Setting> steps(int64_t last, int64_t step) {
  std::vector<Setting> values;
  for (int64_t value = 0; value <= last; value += step) values.emplace_back(value);
  return values;
}

int64_t layers_apart(const NemoModel& m, int64_t stages) {
  const int64_t all = m.size < 1 ? 4 : m.size < 11.3 ? 8 : m.size < 60 ? 16 : 32;
  return std::max<int64_t>(1, all / stages);
}

bool has_two_stacks(const NemoModel& m) {
  return m.family == NemoFamily::t5 || m.family == NemoFamily::mt5;
}

Recomputed recomputed(const NemoModel& m, int64_t stages) {
  Recomputed r;
  const bool interleaved = !has_two_stacks(m) && stages > 2;
  if (interleaved) r.chunks = m.layers / stages;
  if (!m.block) return r;
  const int64_t apart = layers_apart(m, stages);
  if (has_two_stacks(m)) {
    r.layers = steps(2 * m.layers / stages, apart);
    return r;
  }
  const int64_t of_chunk = m.layers / stages / std::max<int64_t>(1, r.chunks);
  r.layers = interleaved ? steps(of_chunk, 1) : steps(m.layers / stages, apart);
  if (stages == 1) return r;
  r.micro_batches = interleaved
                        ? steps(stages * (r.chunks - 1) + 2 * (stages - 1) + 1, 8 * r.chunks)
                        : steps(stages, 1);
  r.micro_batches.front() = 1;  // instead of 0; the tool runs what is then twice there twice
  r.micro_batches.erase(std::ranges::unique(r.micro_batches).begin(), r.micro_batches.end());
  r.per_stage = steps(interleaved ? of_chunk + 1 : m.layers, apart);
  return r;
}

/// Whole micro-batches of each data rank, by the tool's own arithmetic: ranks of a model beyond the
/// GPUs make for fractions, which may pass.
bool divides_batch(const NemoModel& m, int64_t micro_batch, int64_t tensor, int64_t stages) {
  const double together =
      static_cast<double>(micro_batch * m.gpus) / static_cast<double>(tensor * stages);
  return std::fmod(static_cast<double>(m.global_batch), together) == 0;
}

bool is_valid(const NemoModel& m, const NemoGrid& grid, int64_t tensor, int64_t stages) {
  const int64_t stacks = has_two_stacks(m) ? 2 : 1;
  return m.heads % tensor == 0 && stacks * m.layers % stages == 0 &&
         grid.least <= tensor * stages && tensor * stages <= grid.most &&
         std::ranges::any_of(grid.micro_batch, [&](int64_t micro_batch) {
           return divides_batch(m, micro_batch, tensor, stages);
         });
}

void add_pair(const NemoModel& m, const NemoGrid& grid, int64_t tensor, int64_t stages,
              std::vector<NemoCandidate>& all) {
  // A candidate is checked again, and now with the layers of one stack alone.
  if (!is_valid(m, grid, tensor, stages) || m.layers % stages != 0) return;
  const Recomputed r = recomputed(m, stages);
  for (const int64_t micro_batch : grid.micro_batch) {
    if (!divides_batch(m, micro_batch, tensor, stages)) continue;
    for (const Setting layers : r.layers)
      for (const Setting micro_batches : r.micro_batches)
        for (const Setting per_stage : r.per_stage)
          all.push_back({tensor, stages, micro_batch, r.chunks, layers, micro_batches, per_stage});
  }
}

std::string text_of(const Setting& setting) {
  return setting ? fmt::format("{}", *setting) : "None";
}

}  // namespace

std::vector<NemoCandidate> nemo_candidates(const NemoModel& m) {
  const NemoGrid grid = nemo_grid(m.size, m.layers, m.sequence, m.memory_gb, m.family);
  std::vector<NemoCandidate> all;
  for (const int64_t tensor : grid.tensor)
    for (const int64_t stages : grid.pipeline) add_pair(m, grid, tensor, stages, all);
  // Those that recompute least are started first; without, those with the smallest micro-batch.
  std::ranges::stable_sort(all, {},
                           [](const NemoCandidate& c) { return c.layers.value_or(c.micro_batch); });
  return all;
}

std::string_view name_in_files(NemoFamily family) {
  constexpr std::array<std::string_view, 4> kNames = {"gpt3", "bert", "t5", "mt5"};
  return kNames[static_cast<size_t>(family)];
}

std::string file_name(const NemoCandidate& c) {
  return fmt::format("tp_{}_pp_{}_mbs_{}_act_ckpt_{}_num_mbs_act_{}_act_per_pipe_{}", c.tensor,
                     c.pipeline, c.micro_batch, text_of(c.layers), text_of(c.micro_batches),
                     text_of(c.per_stage));
}

std::string table_name(const NemoCandidate& c) {
  return fmt::format("tp{}_pp{}_mbs{}_act_{}_num_mbs_act_{}_act_per_pipe_{}", c.tensor, c.pipeline,
                     c.micro_batch, text_of(c.layers), text_of(c.micro_batches),
                     text_of(c.per_stage));
}

double nemo_step_flops(const NemoShape& shape, int64_t global_batch, int64_t vocab,
                       int64_t sequence, int64_t target, NemoFamily family) {
  const auto l = static_cast<double>(shape.layers), h = static_cast<double>(shape.hidden);
  const auto b = static_cast<double>(global_batch), v = static_cast<double>(vocab);
  const auto s = static_cast<double>(sequence), t = static_cast<double>(target);
  if (family == NemoFamily::gpt)
    return (24 * b * s * h * h + 4 * b * s * s * h) * 3 * l + 6 * b * s * h * v;
  if (family == NemoFamily::bert)
    return 72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  const auto f = static_cast<double>(shape.ffn);
  const auto self = [&](double n) { return 8 * b * n * h * h + 4 * b * n * n * h; };
  const double encoder = self(s) + 6 * b * s * h * f;
  const double cross = 4 * b * s * h * h + 4 * b * t * h * h + 4 * b * s * t * h;
  const double decoder = self(t) + cross + 6 * b * t * h * f;
  return 3 * ((encoder + decoder) * l + 2 * b * t * h * v);
}

}  // namespace megalith::sizing
