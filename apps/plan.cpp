// SPDX-License-Identifier: Apache-2.0
// megalith plan: what a recipe takes under its layout, without running it and without its ranks.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "account/chunk_trace.h"
#include "account/layout_plan.h"
#include "account/plan.h"
#include "apps/command.h"
#include "apps/paper_plan.h"
#include "apps/plan/plan_modes.h"
#include "apps/plan/search_command.h"
#include "apps/recipe_options.h"
#include "apps/sample_writer.h"
#include "engine/from_recipe.h"
#include "report/schedule_page.h"

namespace megalith::apps {
namespace {

/// What one more layer keeps of a micro-batch in each recompute mode, and its operations.
struct RecomputeChoice {
  std::string_view name;
  int64_t kept_bytes;
  double flops;
};

std::vector<RecomputeChoice> recompute_choices(engine::Settings s, const device::Target& target) {
  std::vector<RecomputeChoice> choices;
  for (const auto& [name, mode] : {std::pair{"none", layers::Recompute::none},
                                   std::pair{"selective", layers::Recompute::selective},
                                   std::pair{"full", layers::Recompute::full}}) {
    s.recompute = {mode, 0};
    const account::ChunkTrace layer = account::trace_layer(s, target);
    choices.push_back({name, layer.kept_bytes, layer.forward.flops + layer.backward.flops});
  }
  return choices;
}

const account::RankPlan& largest_of(const std::vector<account::RankPlan>& classes) {
  return *std::ranges::max_element(
      classes, {}, [](const account::RankPlan& rank_class) { return rank_class.memory.total; });
}

nlohmann::ordered_json plan_json(const engine::Settings& s, const account::LayoutPlan& plan,
                                 const std::vector<RecomputeChoice>& choices) {
  nlohmann::ordered_json json;
  json["parameters"] = s.model.num_parameters();
  double flops = 0;
  for (const account::RankPlan& rank_class : plan.classes)
    flops += rank_class.work.flops * rank_class.alike;
  json["flops_per_step"] = flops;
  json["memory"] = account::to_json(largest_of(plan.classes).memory);
  for (const account::RankPlan& rank_class : plan.classes) {
    json["per_rank"].push_back({{"rank", rank_class.rank},
                                {"stage", rank_class.stage},
                                {"ranks_alike", rank_class.alike},
                                {"memory", account::to_json(rank_class.memory)},
                                {"flops", rank_class.work.flops},
                                {"wire_bytes", rank_class.work.bytes_wire},
                                {"wire_bytes_by_kind", rank_class.wire_bytes},
                                {"idle_share", rank_class.idle_share}});
  }
  json["tokens_per_step"] = s.batch.full * s.sequence_length();
  json["ranks"] = s.layout.num_ranks();
  json["bubble"] = plan.bubble;
  for (const RecomputeChoice& choice : choices) {
    json["recompute"].push_back({{"mode", choice.name},
                                 {"kept_bytes_per_layer", choice.kept_bytes},
                                 {"flops_per_layer", choice.flops}});
  }
  return json;
}

/// The class that takes most of a stage's, and how much less others take.
void print_stage(const std::vector<account::RankPlan>& classes) {
  const account::RankPlan& most = largest_of(classes);
  int ranks = 0;
  int64_t least = most.memory.total;
  for (const account::RankPlan& rank_class : classes) {
    ranks += rank_class.alike;
    least = std::min(least, rank_class.memory.total);
  }
  fmt::print(
      "stage {} ({} ranks; rank {} takes most): {:.4g} TFLOP, {} sent per step, idle {:.1f} %\n",
      most.stage, ranks, most.rank, most.work.flops / 1e12,
      account::bytes_text(most.work.bytes_wire), 100 * most.idle_share);
  for (const auto& [kind, bytes] : most.wire_bytes)
    fmt::print("  {:<16} {:>12} bytes  {} sent\n", kind, bytes, account::bytes_text(bytes));
  for (int i = 0; i < device::kNumMemoryClasses; ++i) {
    const auto c = static_cast<device::MemoryClass>(i);
    fmt::print("  {:<12} {:>16} bytes  {}\n", name_of(c), most.memory.of(c),
               account::bytes_text(most.memory.of(c)));
  }
  fmt::print("  {:<12} {:>16} bytes  {}{}\n", "total", most.memory.total,
             account::bytes_text(most.memory.total),
             least == most.memory.total
                 ? ""
                 : fmt::format(", the least of the others {}", account::bytes_text(least)));
}

void print_plan(const engine::Settings& s, const account::LayoutPlan& plan,
                const std::vector<RecomputeChoice>& choices) {
  fmt::print("{} parameters; {} tokens per step; {} ranks\n", s.model.num_parameters(),
             s.batch.full * s.sequence_length(), s.layout.num_ranks());
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    std::vector<account::RankPlan> classes;
    std::ranges::copy_if(
        plan.classes, std::back_inserter(classes),
        [&](const account::RankPlan& rank_class) { return rank_class.stage == stage; });
    print_stage(classes);
  }
  if (s.layout.pipeline > 1)
    fmt::print("pipeline bubble: {:.2f} % of the busiest stage's time\n", 100 * plan.bubble);
  fmt::print("recomputation, per layer and micro-batch on a rank:\n");
  for (const RecomputeChoice& choice : choices) {
    fmt::print(
        "  {:<12} {:>16} bytes kept ({:.1f} % of none), operations {:+.1f} %\n", choice.name,
        choice.kept_bytes,
        100.0 * static_cast<double>(choice.kept_bytes) / static_cast<double>(choices[0].kept_bytes),
        100 * (choice.flops / choices[0].flops - 1));
  }
}

report::SchedulePicture picture_of(const engine::Settings& s, const account::LayoutPlan& plan) {
  report::SchedulePicture picture;
  picture.title = fmt::format("{}: {} stages, {} micro-batches, {} chunks", s.pipeline_schedule,
                              s.layout.pipeline, plan.micro_batches, s.layout.chunks);
  picture.facts.push_back(fmt::format(
      "bubble {:.2f} % of the busiest stage's time; (p - 1)/(v m) is {:.2f} %", 100 * plan.bubble,
      100.0 * (s.layout.pipeline - 1) / (plan.micro_batches * s.layout.chunks)));
  picture.facts.push_back("lengths are the operations of each pass; transfers take no time");
  for (int stage = 0; stage < s.layout.pipeline; ++stage)
    picture.stages.push_back(fmt::format("stage {}", stage));
  for (const parallel::Span& span : plan.timeline.spans) {
    picture.bars.push_back({span.stage, span.action.micro_batch, span.action.chunk,
                            span.action.kind == parallel::ActionKind::backward,
                            span.begin / plan.timeline.end, span.end / plan.timeline.end});
  }
  return picture;
}

struct PlanOptions {
  RecipeOptions recipe;
  bool paper = false;
  std::string timeline;
};

/// A recipe, and what it asks for.
struct Asked {
  config::Recipe recipe;
  engine::Settings settings;
  account::BesideSteps beside;
};

Asked read(const RecipeOptions& options) {
  const config::Recipe recipe = options.load();
  if (recipe.tunes()) {
    throw UserError(
        "{}: tune.model names a model to tune, whose plan megalith tune prints when it starts",
        options.path);
  }
  const auto tokenizer = tokenizer_of(recipe);
  return {recipe, engine::settings_of(recipe, tokenizer ? tokenizer->vocab_size() : 0),
          account::beside_steps(recipe, prompt_lengths(recipe, tokenizer ? &*tokenizer : nullptr))};
}

int run(const PlanOptions& options, bool json) {
  if (options.paper) return print_paper_plan(json);
  const auto& [recipe, settings, beside] = read(options.recipe);
  const device::Target target = device::cpu_target(threads_of(recipe));
  const account::LayoutPlan plan = account::plan_layout(settings, target, beside);
  const auto choices = recompute_choices(settings, target);
  if (!options.timeline.empty())
    report::write_schedule(picture_of(settings, plan), options.timeline);
  if (json) {
    print_json(plan_json(settings, plan, choices));
  } else {
    print_plan(settings, plan, choices);
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(app, invocation, "plan",
                            "memory and work of a recipe, by running it on shapes alone",
                            "  megalith plan recipes/gpt2_124m.yaml --json\n"
                            "  megalith plan recipes/demo.yaml --set parallel.pipeline=2 "
                            "--timeline schedule.html\n"
                            "  megalith plan --paper\n"
                            "  megalith plan recipes/large/gpt3_175b.yaml --search --gpus 1024 "
                            "--cluster recipes/clusters/a100_80gb.yaml\n"
                            "  megalith plan recipe.yaml --search --cluster here.yaml --confirm 4\n"
                            "  megalith plan recipes/large/gpt3_175b.yaml --search --nemo --gpus "
                            "1024 --cluster recipes/clusters/a100_80gb.yaml\n"
                            "  megalith plan --budget --gpus 1024 --days 24 --tokens 300B "
                            "--tflops 148\n"
                            "  megalith plan recipes/gpt2_124m.yaml --inference --cluster "
                            "recipes/clusters/h100.yaml\n"
                            "  megalith plan --inference --measured latencies.csv "
                            "--max-latency-ms 400\n"
                            "  megalith plan --goodput --gpus 3072 --days 84 --write-seconds 60\n");
  auto options = std::make_shared<PlanOptions>();
  options->recipe.declare(c);
  CLI::Option* const recipe = c.get_option("recipe")->required(false);
  CLI::Option* const paper = c.add_flag(
      "--paper", options->paper,
      "instead of a recipe: the memory table of Korthikanti et al. 2022, beside the paper's");
  CLI::Option* const timeline =
      c.add_option("--timeline", options->timeline,
                   "write the pipeline schedule as a picture (.html) or a Chrome trace (.json)");
  paper->excludes(recipe)->excludes(c.get_option("--set"))->excludes(timeline);
  auto modes = std::make_shared<PlanModes>(c);
  const auto run_size = std::make_shared<RunSize>();
  add_search(*modes, run_size, [options](const SearchCommand& search, bool json) {
    const Asked asked = read(options->recipe);
    return run_search(search, asked.recipe, asked.settings, asked.beside, json);
  });
  add_budget(*modes, run_size);
  add_goodput(*modes, run_size);
  add_inference(*modes, run_size, {options, &options->recipe});
  c.callback([=, &invocation] {
    if (const auto* run = modes->chosen(options->recipe)) {
      if (options->paper || !options->timeline.empty())
        throw CLI::ValidationError("--paper and --timeline go with no other question");
      invocation.run = [=, &invocation] { return (*run)(invocation.json); };
      return;
    }
    if (!options->paper && options->recipe.path.empty())
      throw CLI::RequiredError("recipe (or --paper)");
    invocation.run = [=, &invocation] { return run(*options, invocation.json); };
  });
}

}  // namespace megalith::apps
