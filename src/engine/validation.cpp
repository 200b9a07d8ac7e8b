// SPDX-License-Identifier: Apache-2.0
#include "engine/validation.h"

#include <algorithm>

#include "comm/operation.h"

namespace megalith::engine {

std::optional<double> validation_loss(Engine& engine, const data::BatchSource& source,
                                      int64_t samples, FunctionRef<bool()> stop) {
  const parallel::Mesh& mesh = engine.mesh();
  const int64_t at_once = engine.settings().micro_batch;
  const comm::Part mine = comm::part_of(samples, mesh.at().data, mesh.layout().data);
  const int64_t most = comm::part_of(samples, 0, mesh.layout().data).count;
  std::vector<double> sums;
  double weight = 0;
  data::HostBatch batch;
  for (int64_t done = 0; done < most; done += at_once) {
    if (stop()) return std::nullopt;
    const int64_t count = std::min(at_once, mine.count - done);
    if (count <= 0) continue;
    source.fill(mine.begin + done, count, batch);
    std::ranges::copy(engine.sample_losses(batch), std::back_inserter(sums));
    weight += batch.total_weight;
  }
  // Rank by rank is sample by sample. The weights are whole numbers: any order gives their sum.
  sums = mesh.data().exchange_values(std::span<const double>(sums), "validation.loss");
  sums = mesh.pipeline().exchange_values(std::span<const double>(sums), "validation.loss");
  double sum = 0, total = 0;
  for (const double x : sums) sum += x;
  for (const double w :
       mesh.data().exchange_values(std::span<const double>(&weight, 1), "validation.weight"))
    total += w;
  return sum / total;
}

}  // namespace megalith::engine
