// SPDX-License-Identifier: Apache-2.0
// megalith bench train: steps of a recipe's model on made-up tokens, under its layout.
#include <algorithm>
#include <optional>

#include "account/layout_plan.h"
#include "account/plan.h"
#include "account/traced_step.h"
#include "apps/bench/figures.h"
#include "apps/memory_admission.h"
#include "apps/ranks.h"
#include "comm/backends.h"
#include "config/layouts.h"
#include "engine/from_recipe.h"
#include "trials/made_up_batches.h"
#include "trials/other_load.h"
#include "trials/timed_steps.h"

namespace megalith::apps {

namespace {

void report_memory(const account::MemoryByClass& measured, const account::MemoryByClass& planned,
                   int threads, bool json) {
  report("train.memory", {static_cast<double>(measured.total)}, "bytes of the largest rank", false,
         threads, json);
  report("train.memory.planned", {static_cast<double>(planned.total)}, "bytes of the largest rank",
         false, threads, json);
}

account::MemoryByClass planned_memory(const engine::Settings& settings,
                                      const device::Target& target) {
  const auto by_rank = account::plan_memory(settings, target, {});
  return *std::ranges::max_element(by_rank, {}, &account::MemoryByClass::total);
}

double tokens_of(const engine::Settings& s) {
  return static_cast<double>(s.batch.full * s.sequence_length());
}

/// Of several ranks: threads of this process, or those that a launcher has started.
int bench_ranks(const config::Recipe& recipe, const std::optional<Launch>& launch,
                const BenchOptions& o, bool json) {
  const engine::Settings settings = engine::settings_of(recipe, vocab_of(recipe));
  std::optional<trials::TimedSteps> timed;
  account::MemoryByClass planned;
  int threads = 0;
  on_ranks(rank_options(recipe), launch, [&](const RankPlace& place) {
    require_memory(place, recipe, nullptr, [&](const config::Recipe& candidate) {
      return engine::settings_of(candidate, settings.model.vocab);
    });
    const trials::TimedSteps mine = trials::timed_steps(
        place.world, place.device, settings, {.samples = o.samples, .least_seconds = 0.25});
    if (place.world.rank() != 0) return;
    threads = place.device.target().num_threads * place.world.size();
    planned = planned_memory(settings, place.device.target());
    timed = mine;
  });
  if (!timed) return 0;  // rank 0 is another process
  report("train.step_seconds", timed->seconds, "s", false, threads, json);
  for (double& seconds : timed->seconds) seconds = tokens_of(settings) / seconds;
  report("train.tokens_per_second", timed->seconds, "tokens/s", true, threads, json);
  report_memory(timed->memory, planned, threads, json);
  for (double& flops : timed->ceiling) flops *= 1e-9;
  report("train.gemm_ceiling", timed->ceiling, "GFLOP/s a rank", true, threads, json);
  for (double& share : timed->other_load) share *= 100;
  report("train.other_programs", timed->other_load, "% of the cores", false, threads, json);
  return 0;
}

}  // namespace

int bench_train(const RecipeOptions& recipe_options, const BenchOptions& o, bool json) {
  config::Recipe recipe = recipe_options.load();
  if (recipe.tunes()) {
    throw UserError("{}: tune.model names a model to tune; bench train takes a model to train",
                    recipe_options.path);
  }
  if (o.threads > 0) recipe.run.threads = o.threads;
  const std::optional<Launch> launch = settle_ranks(recipe, 0);
  if (launch || config::num_ranks(recipe) > 1) return bench_ranks(recipe, launch, o, json);
  const engine::Settings settings = engine::settings_of(recipe, vocab_of(recipe));
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
  const std::vector<data::HostBatch> batches = trials::made_up_batches(settings);
  const double tokens = tokens_of(settings);
  int64_t step = 0;
  const auto one_step = [&] { engine.step(++step, 1e-4, batches, tokens); };
  one_step();
  one_step();
  constexpr double kGiB = 1 << 30;
  report("train.peak_resident", {static_cast<double>(account::resident_memory().peak) / kGiB},
         "GiB", false, threads, json);
  BestGemm best(threads);
  const trials::OtherLoad load;
  SharedRates rates = rates_beside_best(o.samples, work.flops, best, one_step);
  for (double& flops : rates.rates) flops *= tokens / work.flops;
  std::vector<double> seconds;
  for (const double rate : rates.rates) seconds.push_back(tokens / rate);
  report("train.step_seconds", seconds, "s", false, threads, json);
  report_memory(account::memory_of(*device), planned_memory(settings, target), threads, json);
  for (double& flops : rates.best) flops *= 1e-9;
  report("train.tokens_per_second", rates.rates, "tokens/s", true, threads, json);
  report("gemm.best", rates.best, "GFLOP/s", true, threads, json);
  report("train.share_of_best_gemm", rates.shares, "%", true, threads, json);
  // One figure for all samples, which alternate with products.
  report("train.other_programs", std::vector<double>(seconds.size(), 100 * load.share()),
         "% of the cores", false, threads, json);
  return 0;
}

}  // namespace megalith::apps
