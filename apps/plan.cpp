// SPDX-License-Identifier: Apache-2.0
// megalith plan: what a recipe takes, without running it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "account/plan.h"
#include "apps/command.h"
#include "apps/cpu_target.h"
#include "apps/recipe_options.h"
#include "comm/backends.h"
#include "train/from_recipe.h"
#include "train/traced_step.h"

namespace megalith::apps {
namespace {

struct RankPlan {
  int rank;
  parallel::Coordinates at;
  account::Plan plan;
};

/// One traced rank per pipeline stage and tensor rank; data ranks are alike.
std::vector<RankPlan> trace_ranks(const train::Settings& settings, const device::Target& target,
                                  train::BesideSteps beside) {
  // Validation under a pipeline is not built.
  if (settings.layout.pipeline > 1) beside.validation_samples = 0;
  std::vector<RankPlan> ranks;
  for (int rank = 0; rank < settings.layout.num_ranks(); ++rank) {
    const parallel::Coordinates at = parallel::coordinates_of(settings.layout, rank);
    if (at.data != 0 || at.tensor != 0) continue;
    ranks.push_back({rank, at, account::trace(target, [&](device::Device& device) {
                       const auto world = comm::make_traced_communicator(
                           device, rank, settings.layout.num_ranks());
                       train::traced_step(settings, device, *world, beside);
                     })});
  }
  return ranks;
}

nlohmann::ordered_json plan_json(const train::Settings& s, const std::vector<RankPlan>& ranks) {
  nlohmann::ordered_json json;
  json["parameters"] = s.architecture.num_parameters();
  double flops = 0;
  for (const RankPlan& r : ranks) flops += r.plan.work.flops * s.layout.tensor * s.layout.data;
  json["flops_per_step"] = flops;
  // The rank that needs the most.
  const RankPlan* largest = &ranks[0];
  for (const RankPlan& r : ranks) {
    if (r.plan.memory.total > largest->plan.memory.total) largest = &r;
  }
  json["memory"] = account::to_json(largest->plan.memory);
  for (const RankPlan& r : ranks) {
    json["per_rank"].push_back({{"rank", r.rank},
                                {"stage", r.at.pipeline},
                                {"memory", account::to_json(r.plan.memory)},
                                {"flops", r.plan.work.flops},
                                {"wire_bytes", r.plan.work.bytes_wire}});
  }
  json["tokens_per_step"] = s.batch.full * s.sequence_length();
  return json;
}

void print_plan(const train::Settings& s, const std::vector<RankPlan>& ranks) {
  fmt::print("{} parameters; {} tokens per step\n", s.architecture.num_parameters(),
             s.batch.full * s.sequence_length());
  for (const RankPlan& r : ranks) {
    fmt::print("rank {} (stage {}): {:.2f} TFLOP, {} sent per step\n", r.rank, r.at.pipeline,
               r.plan.work.flops / 1e12, account::bytes_text(r.plan.work.bytes_wire));
    for (int i = 0; i < device::kNumMemoryClasses; ++i) {
      const auto c = static_cast<device::MemoryClass>(i);
      fmt::print("  {:<12} {:>16} bytes  {}\n", name_of(c), r.plan.memory.of(c),
                 account::bytes_text(r.plan.memory.of(c)));
    }
    fmt::print("  {:<12} {:>16} bytes  {}\n", "total", r.plan.memory.total,
               account::bytes_text(r.plan.memory.total));
  }
}

int run(const RecipeOptions& options, bool json) {
  const config::Recipe recipe = options.load();
  const auto tokenizer = tokenizer_of(recipe);
  const train::Settings settings =
      train::settings_of(recipe, tokenizer ? tokenizer->vocab_size() : 0);
  const device::Target target = cpu_target(threads_of(recipe), settings.numerics);
  const auto ranks = trace_ranks(settings, target, train::beside_steps(recipe));
  if (json) {
    print_json(plan_json(settings, ranks));
  } else {
    print_plan(settings, ranks);
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(app, invocation, "plan",
                            "memory and work of a recipe, by running it on shapes alone",
                            "  megalith plan recipes/gpt2_124m.yaml --json\n"
                            "  megalith plan recipes/demo.yaml --set parallel.pipeline=2\n");
  auto options = std::make_shared<RecipeOptions>();
  options->declare(c);
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return run(*options, invocation.json); };
  });
}

}  // namespace megalith::apps
