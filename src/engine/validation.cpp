// SPDX-License-Identifier: Apache-2.0
#include "engine/validation.h"

#include <algorithm>

#include "base/check.h"
#include "comm/operation.h"

namespace megalith::engine {

bool pass_over(const Engine& engine, const data::BatchSource& source, int64_t samples,
               FunctionRef<bool()> stop, FunctionRef<void(const data::HostBatch& batch)> pass) {
  const parallel::Mesh& mesh = engine.mesh();
  const int64_t at_once = engine.settings().micro_batch;
  const comm::Part mine = comm::part_of(samples, mesh.at().data, mesh.layout().data);
  const int64_t most = comm::part_of(samples, 0, mesh.layout().data).count;
  data::HostBatch batch;
  for (int64_t done = 0; done < most; done += at_once) {
    if (stop()) return false;
    const int64_t count = std::min(at_once, mine.count - done);
    if (count <= 0) continue;
    source.fill(mine.begin + done, count, batch);
    pass(batch);
  }
  return true;
}

std::optional<ValidationLoss> validation_loss(Engine& engine, const data::BatchSource& source,
                                              int64_t samples, FunctionRef<bool()> stop,
                                              const KeepSpans& keep) {
  MEGA_CHECK(!keep || engine.finds_spans(), "spans kept of another head");
  const parallel::Mesh& mesh = engine.mesh();
  std::vector<double> sums, pairs, told, tasks, predictions, targets, answers, kept;
  double weight = 0;
  const bool is_whole = pass_over(engine, source, samples, stop, [&](const data::HostBatch& batch) {
    const SampleLosses losses = engine.sample_losses(batch);
    std::ranges::copy(losses.sums, std::back_inserter(sums));
    std::ranges::copy(losses.pairs, std::back_inserter(pairs));
    std::ranges::copy(losses.told, std::back_inserter(told));
    std::ranges::copy(losses.tasks, std::back_inserter(tasks));
    std::ranges::copy(losses.predictions, std::back_inserter(predictions));
    std::ranges::copy(losses.targets, std::back_inserter(targets));
    std::ranges::copy(losses.answers, std::back_inserter(answers));
    // The last stage has them.
    if (keep && !losses.span_logits.empty()) keep(batch, losses.span_logits, kept);
    weight += batch.total_weight;
  });
  if (!is_whole) return std::nullopt;
  // The weights are whole numbers: any order gives their sum.
  const double sum = sum_over_ranks(mesh, sums, "validation.loss");
  double total = 0;
  for (const double w :
       mesh.data().exchange_values(std::span<const double>(&weight, 1), "validation.weight"))
    total += w;
  ValidationLoss result{.loss = sum / total, .pair_loss = {}, .told = {}};
  const layers::LossShape& shape = engine.losses().shape();
  if (shape.told > 0)
    result.told = means_over_ranks(mesh, told, shape.told, total, "validation.told");
  if (source.num_tasks() > 0)
    result.tasks = task_means_over_ranks(mesh, tasks, source.num_tasks(), "validation.tasks");
  if (engine.predicts()) {
    result.predictions = of_all_ranks(mesh, predictions, "validation.predictions");
    result.targets = of_all_ranks(mesh, targets, "validation.targets");
    if (shape.unit == layers::LossUnit::token)
      result.answers = of_all_ranks(mesh, answers, "validation.answers");
  }
  if (keep) result.kept_of_spans = of_all_ranks(mesh, kept, "validation.spans");
  if (!shape.pairs) return result;
  result.pair_loss =
      sum_over_ranks(mesh, pairs, "validation.pair_loss") / static_cast<double>(samples);
  result.loss += *result.pair_loss;
  return result;
}

}  // namespace megalith::engine
