// SPDX-License-Identifier: Apache-2.0
// megalith train: joins the recipe, the plan, text samples and the report around the training loop.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "account/plan.h"
#include "apps/command.h"
#include "apps/cpu_target.h"
#include "apps/machine.h"
#include "apps/recipe_options.h"
#include "apps/step_profiler.h"
#include "apps/version.h"
#include "base/log.h"
#include "comm/backends.h"
#include "config/resume.h"
#include "device/memory_offer.h"
#include "generate/generator.h"
#include "kernels/matmul/ceiling.h"
#include "kernels/reduction/read_bandwidth.h"
#include "report/page.h"
#include "train/from_recipe.h"
#include "train/loop.h"
#include "train/memory_fit.h"
#include "train/run_lock.h"
#include "train/stop_request.h"
#include "train/traced_step.h"

namespace megalith::apps {
namespace {

account::Plan plan_of(const config::Recipe& recipe, const train::Settings& settings,
                      const device::Target& target) {
  const train::BesideSteps beside = train::beside_steps(recipe);
  return account::trace(target, [&](device::Device& device) {
    const auto world = comm::make_self_communicator(device);
    train::traced_step(settings, device, *world, beside);
  });
}

/// FLOPs a step cannot avoid: those of a run that keeps everything.
double necessary_flops(train::Settings settings, const device::Target& target) {
  settings.recompute = {};
  return account::trace(target,
                        [&](device::Device& device) {
                          const auto world = comm::make_self_communicator(device);
                          train::traced_step(settings, device, *world, {});
                        })
      .work.flops;
}

/// A prompt of the recipe as tokens; an empty one begins a document.
std::vector<int32_t> prompt_ids(const std::string& prompt, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(prompt, true);
  const auto end = tokenizer.end_of_document();
  if (ids.empty() && end) ids = {*end};
  return ids;
}

/// Refuses, before the first step, text samples that could not be written later.
void check_samples(const config::Recipe& recipe, const std::optional<text::Tokenizer>& tokenizer,
                   const std::string& path) {
  if (recipe.train.sample_every == 0) return;
  if (!tokenizer || recipe.train.sample_prompts.empty())
    throw UserError("{}: train.sample_every needs data.tokenizer and train.sample_prompts", path);
  for (size_t i = 0; i < recipe.train.sample_prompts.size(); ++i) {
    const auto tokens =
        static_cast<int64_t>(prompt_ids(recipe.train.sample_prompts[i], *tokenizer).size());
    if (tokens == 0 || tokens > recipe.model.context) {
      throw UserError(
          "{}: train.sample_prompts[{}] is {} tokens long; from 1 to model.context ({}) can be "
          "continued",
          path, i, tokens, recipe.model.context);
    }
  }
}

/// Continuations of the recipe's prompts. They are written by a copy of the model on a device of
/// its own, so that they take nothing from the planned memory.
std::vector<report::TextSample> write_samples(train::Engine& engine, int64_t step,
                                              const config::Recipe& recipe,
                                              const text::Tokenizer& tokenizer) {
  const auto device = device::make_cpu_device(engine.device().target());
  generate::InferenceModel model(engine.settings().architecture, *device,
                                 {engine.settings().weights, engine.settings().numerics,
                                  engine.settings().split.tensor_shards});
  for (parameters::Parameter& parameter : model.parameters().all()) {
    device->copy(parameter.mutable_compute(),
                 engine.parameters().find(parameter.name())->compute());
  }
  generate::GenerateOptions options;
  options.max_new_tokens = recipe.train.sample_tokens;
  options.sampling = {0.8, 50, 0.95, static_cast<uint64_t>(recipe.run.seed)};
  if (const auto end = tokenizer.end_of_document()) options.end_ids = {*end};
  std::vector<report::TextSample> samples;
  for (const std::string& prompt : recipe.train.sample_prompts) {
    const std::vector<int32_t> ids = prompt_ids(prompt, tokenizer);
    samples.push_back({step, prompt, generate::generate(model, &tokenizer, ids, options).text});
  }
  return samples;
}

void print_start(const config::Recipe& recipe, const train::Settings& s, const account::Plan& plan,
                 const train::RunFacts& facts) {
  using account::bytes_text;
  const auto& m = plan.memory;
  const std::string text = fmt::format(
      "model      {} parameters, {} layers x {}, {} heads, context {}, vocabulary {}\n"
      "memory     {}: weights {}, gradients {}, optimizer {}, activations {}, workspace {}, "
      "snapshot {} (planned)\n"
      "step       {} samples of {} tokens, micro-batch {}, {:.1f} GFLOP; ceiling {:.0f} "
      "GFLOP/s on {} threads\n"
      "run        {}\n",
      s.architecture.num_parameters(), s.architecture.layers, s.architecture.hidden,
      s.architecture.heads, s.architecture.context, s.architecture.vocab, bytes_text(m.total),
      bytes_text(m.of(device::MemoryClass::weights)),
      bytes_text(m.of(device::MemoryClass::gradients)),
      bytes_text(m.of(device::MemoryClass::optimizer)),
      bytes_text(m.of(device::MemoryClass::activations)),
      bytes_text(m.of(device::MemoryClass::workspace)),
      bytes_text(m.of(device::MemoryClass::snapshot)), s.batch.full, s.sequence_length(),
      s.micro_batch, facts.step_flops / 1e9, facts.gemm_ceiling_flops / 1e9,
      facts.machine["threads"].get<int>(), recipe.run.out);
  std::fputs(text.c_str(), stderr);  // a full log must not keep a run from starting
}

nlohmann::ordered_json result_json(const train::RunResult& result) {
  auto json = result.last.step > 0 ? nlohmann::ordered_json::parse(result.last.to_json_line())
                                   : nlohmann::ordered_json::object();
  json["status"] = result.status;
  return json;
}

/// Of the kernels that the run uses: its numerics and storage. Memory is measured when a profile
/// needs it.
account::Roofline roofline_of(const train::Settings& settings, const device::Target& target,
                              bool with_memory) {
  const auto scratch = device::make_cpu_device(target);
  kernels::Exec exec(*scratch, settings.numerics);
  return {kernels::gemm_ceiling(exec, settings.weights, 0.3),
          with_memory ? kernels::read_bandwidth(exec, int64_t{256} << 20, 0.1) : 0};
}

/// Says what exact arithmetic costs on a machine where that is much.
void advise_fast(const train::Settings& settings, const device::Target& target) {
  const double gain = fast_gain(target.num_threads, settings.weights);
  if (gain > 1.1) {
    log::info(
        "numerics fast would multiply the matrices of this recipe {:.1f}x faster on this machine; "
        "results would then depend on it",
        gain);
  }
}

struct TrainOptions {
  int ranks = 1;
  int64_t profile_steps = 0;
  std::vector<std::string> allow;
};

int run(const RecipeOptions& options, const TrainOptions& extra, bool json) {
  const train::StopRequest stop;  // first: a signal during the start is a wish too
  config::check_allow(extra.allow);
  const config::Recipe recipe = options.load();
  if (extra.ranks != 1) {
    throw UserError("--ranks {} is not built yet; train with one rank (its threads use all cores)",
                    extra.ranks);
  }
  if (recipe.data.train.empty())
    throw UserError("{}: data.train names no corpus; set it to a prefix", options.path);
  const auto tokenizer = tokenizer_of(recipe);
  check_samples(recipe, tokenizer, options.path);
  const train::Settings settings =
      train::settings_of(recipe, tokenizer ? tokenizer->vocab_size() : 0);
  train::require_one_rank(settings);
  const train::RunLock lock(recipe.run.out);
  const auto device = device::make_cpu_device(cpu_target(threads_of(recipe), settings.numerics));
  const account::Plan plan = plan_of(recipe, settings, device->target());
  const int64_t vocab = tokenizer ? tokenizer->vocab_size() : 0;
  const auto planned = [&](const config::Recipe& candidate) {
    return plan_of(candidate, train::settings_of(candidate, vocab), device->target()).memory.total;
  };
  train::check_memory(recipe, planned, device::memory_offer());
  train::RunFacts facts;
  facts.version = kVersion;
  facts.allow = extra.allow;
  facts.machine = machine_json(device->target());
  facts.planned_memory = account::to_json(plan.memory);
  facts.step_flops = necessary_flops(settings, device->target());
  const account::Roofline roofline =
      roofline_of(settings, device->target(), extra.profile_steps > 0);
  facts.gemm_ceiling_flops = roofline.flops;
  if (!json) print_start(recipe, settings, plan, facts);
  if (settings.numerics == kernels::Numerics::exact) advise_fast(settings, device->target());
  train::Hooks hooks;
  if (recipe.train.sample_every > 0) {
    hooks.samples = [&](train::Engine& engine, int64_t step) {
      return write_samples(engine, step, recipe, *tokenizer);
    };
  }
  StepProfiler profiler(extra.profile_steps, std::filesystem::path(recipe.run.out) / "profile.json",
                        roofline);
  if (extra.profile_steps > 0) profiler.attach(hooks);
  const train::RunResult result =
      train::run_training(recipe, tokenizer ? &*tokenizer : nullptr, facts, hooks, *device, !json);
  profiler.finish();
  const std::string page = report::write_report(recipe.run.out).string();
  if (json) {
    print_json(result_json(result));
  } else {
    std::fputs(fmt::format("{}: {}\n", result.status, page).c_str(), stderr);
  }
  return result.signal != 0 ? 128 + result.signal : 0;
}

}  // namespace

void add_train(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(
      app, invocation, "train", "train a model as a recipe says; resumes by itself",
      "  megalith train recipes/demo.yaml\n"
      "  megalith train recipes/demo.yaml --set run.out=runs/b --set optimizer.lr=1e-3\n");
  auto options = std::make_shared<RecipeOptions>();
  auto extra = std::make_shared<TrainOptions>();
  options->declare(c);
  c.add_option("--profile", extra->profile_steps,
               "steps to profile (3 unless given), after the first: a table, and profile.json (a "
               "Chrome trace) in the run folder")
      ->expected(0, 1)
      ->default_str("3")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  c.add_option("--ranks", extra->ranks, "ranks as threads of this process")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  c.add_option("--allow", extra->allow,
               "recipe key that a resume may change: --allow optimizer.lr (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return run(*options, *extra, invocation.json); };
  });
}

}  // namespace megalith::apps
