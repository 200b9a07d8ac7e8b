// SPDX-License-Identifier: Apache-2.0
#include "train/validation.h"

#include <algorithm>

#include "comm/operation.h"
#include "train/run_inputs.h"

namespace megalith::train {

data::SamplerOptions sampler_options(const config::Recipe& recipe, const engine::Settings& settings,
                                     data::Split split) {
  data::SamplerOptions options;
  options.sequence_length = settings.sequence_length();
  options.vocab_size = settings.model.vocab;
  options.seed = settings.seed;
  options.validation_fraction = recipe.data.validation_fraction;
  options.split = split;
  options.shuffle = split == data::Split::train;
  return options;
}

std::unique_ptr<data::Sampler> validation_sampler(const config::Recipe& recipe,
                                                  const engine::Settings& settings) {
  if (recipe.train.validate_every == 0) return nullptr;
  if (!recipe.data.validation.empty()) {
    data::SamplerOptions options = sampler_options(recipe, settings, data::Split::train);
    options.validation_fraction = 0;
    options.shuffle = false;
    return std::make_unique<data::Sampler>(corpora_of(recipe.data.validation), options);
  }
  if (recipe.data.validation_fraction > 0) {
    return std::make_unique<data::Sampler>(
        corpora_of(recipe.data.train), sampler_options(recipe, settings, data::Split::validation));
  }
  throw UserError(
      "recipe: train.validate_every is set but there is no data.validation and "
      "data.validation_fraction is 0");
}

std::optional<double> validation_loss(engine::Engine& engine, const data::Sampler& sampler,
                                      int64_t samples, const data::BatchOptions& options,
                                      FunctionRef<bool()> stop) {
  const parallel::Mesh& mesh = engine.mesh();
  const int64_t at_once = engine.settings().micro_batch;
  const comm::Part mine = comm::part_of(samples, mesh.at().data, mesh.layout().data);
  const int64_t most = comm::part_of(samples, 0, mesh.layout().data).count;
  std::vector<double> sums;
  double weight = 0;
  for (int64_t done = 0; done < most; done += at_once) {
    if (stop()) return std::nullopt;
    const int64_t count = std::min(at_once, mine.count - done);
    if (count <= 0) continue;
    const auto batch = data::make_batch(sampler, mine.begin + done, count, options);
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

}  // namespace megalith::train
