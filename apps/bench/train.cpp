// SPDX-License-Identifier: Apache-2.0
// megalith bench train: steps of a recipe's model on made-up tokens.
#include "account/plan.h"
#include "account/traced_step.h"
#include "apps/bench/figures.h"
#include "comm/backends.h"
#include "engine/from_recipe.h"

namespace megalith::apps {
std::vector<data::HostBatch> made_up_batches(const engine::Settings& settings) {
  std::vector<data::HostBatch> batches = account::shaped_batches(settings);
  int64_t id = 0;
  const auto fill = [&](std::vector<int32_t>& ids) {
    for (int32_t& made_up : ids) {
      made_up = static_cast<int32_t>(id % settings.model.vocab);
      id = (id * 31 + 17) % 1'000'003;
    }
  };
  for (data::HostBatch& batch : batches) {
    fill(batch.encoder.ids_T);
    fill(batch.ids_T);
    fill(batch.targets_T);
  }
  return batches;
}

int bench_train(const RecipeOptions& recipe_options, const BenchOptions& o, bool json) {
  const config::Recipe recipe = recipe_options.load();
  const engine::Settings settings = engine::settings_of(recipe, vocab_of(recipe));
  if (settings.layout.num_ranks() != 1) {
    throw UserError(
        "recipe: parallel asks for {} ranks, this is a run of one; set parallel.tensor, "
        "parallel.pipeline and parallel.data to 1",
        settings.layout.num_ranks());
  }
  const int threads = o.threads > 0 ? o.threads : threads_of(recipe);
  const device::Target target = device::cpu_target(threads);
  const device::Work work = account::trace(target, [&](device::Device& traced) {
                              const auto world = comm::make_self_communicator(traced);
                              account::traced_step(settings, traced, *world, {});
                            }).work;
  const auto device = device::make_device(target);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  engine::Engine engine(settings, *device, mesh);
  engine.initialise();
  const std::vector<data::HostBatch> batches = made_up_batches(settings);
  const auto tokens = static_cast<double>(settings.batch.full * settings.sequence_length());
  int64_t step = 0;
  const auto one_step = [&] { engine.step(++step, 1e-4, batches, tokens); };
  one_step();
  one_step();
  constexpr double kGiB = 1 << 30;
  report("train.peak_resident", {static_cast<double>(account::resident_memory().peak) / kGiB},
         "GiB", false, threads, json);
  BestGemm best(threads);
  SharedRates rates = rates_beside_best(o.samples, work.flops, best, one_step);
  for (double& flops : rates.rates) flops *= tokens / work.flops;
  for (double& flops : rates.best) flops *= 1e-9;
  report("train.tokens_per_second", rates.rates, "tokens/s", true, threads, json);
  report("gemm.best", rates.best, "GFLOP/s", true, threads, json);
  report("train.share_of_best_gemm", rates.shares, "%", true, threads, json);
  return 0;
}

}  // namespace megalith::apps
