// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "account/layout_plan.h"
#include "apps/plan/budget_options.h"
#include "base/error.h"
#include "engine/from_recipe.h"
#include "families/families.h"
#include "report/quantity.h"
#include "sizing/sized_recipe.h"

namespace megalith::apps {
namespace {

sizing::Task task_of(const BudgetOptions& o) {
  sizing::Task task;
  task.family = o.family == "gpt" ? "gpt2" : o.family;
  const std::string objective = sizing::objective_of(task.family);
  task.sequence = o.sequence > 0 ? o.sequence : objective == "causal" ? 2048 : 512;
  task.vocab = o.vocab;
  if (task.vocab == 0) {
    task.vocab = objective == "causal" ? 51200 : objective == "masked" ? 30522 : 32128;
    if (task.family == "mt5") task.vocab = 250112;
  }
  task.recompute = o.recompute == "full"        ? layers::Recompute::full
                   : o.recompute == "selective" ? layers::Recompute::selective
                                                : layers::Recompute::none;
  return task;
}

double days_of(const sizing::Budget& b, const sizing::SizedModel& model, double tokens) {
  return tokens * model.flops_per_token / (86400 * b.gpus * b.flops);
}

/// The best size for all operations of the budget, by each law; then 20 tokens a parameter.
std::vector<Alternative> alternatives_of(const BudgetAnswer& answer) {
  const sizing::Task& task = answer.task;
  std::vector<Alternative> all;
  const double flops = answer.budget.total_flops();
  const auto add = [&](const std::string& source, const sizing::LossLaw& law, double parameters) {
    const sizing::SizedModel model =
        sizing::best_shape(task, sizing::Cost::parameters, 1.015 * parameters);
    if (model.shape.layers == 0) return;
    const double tokens = flops / model.flops_per_token;
    all.push_back({source, model, tokens, law.loss(static_cast<double>(model.parameters), tokens)});
  };
  if (answer.fitted) add(answer.law.source, answer.law, answer.law.best_parameters(flops));
  for (const sizing::LossLaw& law : sizing::loss_laws())
    add(law.source, law, law.best_parameters(flops));
  add("20 tokens a parameter (Hoffmann et al. 2022, approach 1)", answer.law,
      std::sqrt(flops / 6 / sizing::kTokensPerParameter));
  return all;
}

void ask_nemo(BudgetAnswer& answer, const BudgetOptions& o) {
  answer.nemo_family = sizing::nemo_family(o.family);
  if (!answer.nemo_family) {
    if (o.run->nemo)
      throw UserError("--nemo knows no --family {}; give gpt, bert, t5 or mt5", o.family);
    return;
  }
  answer.nemo_size = sizing::nemo_size(answer.budget, *answer.nemo_family);
  try {
    answer.nemo_shape = sizing::nemo_shape(answer.nemo_size, answer.task.vocab,
                                           answer.task.sequence, *answer.nemo_family);
  } catch (const UserError& error) {
    if (o.run->nemo) throw;
    answer.nemo_fault = error.what();
  }
}

std::vector<std::string> assumptions_of(const BudgetOptions& o, const BudgetAnswer& answer) {
  const sizing::Task& task = answer.task;
  std::vector<std::string> all;
  if (o.run->nemo) {
    all.push_back(
        "8 operations a parameter and token, so --tflops counts full recomputation (Narayanan et "
        "al. 2021, eq. 4); size, shape and layout by the tables of NeMo's auto-configurator");
  } else {
    all.push_back(fmt::format(
        "--tflops counts operations of matrix products, attention over all pairs, backward twice "
        "forward{} (Korthikanti et al. 2022, eq. 7)",
        task.recompute == layers::Recompute::none
            ? ", none computed twice: --recompute says otherwise"
            : fmt::format(", and what {} recomputation does again", o.recompute)));
    all.push_back("width and depth by Levine et al. 2020: layers = (ln(hidden) - 5.039) / 0.0555");
  }
  all.push_back(fmt::format("vocabulary {}, samples of {} tokens{}", task.vocab, task.sequence,
                            sizing::objective_of(task.family) == "spans"
                                ? " for the encoder, whose tokens are counted"
                                : ""));
  if (answer.fitted)
    all.push_back(fmt::format(
        "loss = {:.4g} + {:.4g} / parameters^{:.3f} + {:.4g} / tokens^{:.3f}, fitted to {} runs "
        "that it misses by {:.2g} % (root of the mean square)",
        answer.law.irreducible, answer.law.a, answer.law.alpha, answer.law.b, answer.law.beta,
        o.runs.size(), 100 * answer.fitted->residual));
  all.push_back("GPUs compute all of the time: see --goodput for failures and saves");
  return all;
}

}  // namespace

BudgetAnswer answer_budget(const BudgetOptions& o) {
  BudgetAnswer answer;
  answer.budget = {static_cast<double>(o.run->gpus), o.run->days,
                   o.tokens.empty() ? 0 : sizing::parse_count(o.tokens, "--tokens"),
                   o.tflops * 1e12};
  sizing::check(answer.budget);
  answer.task = task_of(o);
  ask_nemo(answer, o);
  if (!o.runs.empty()) answer.fitted = fit_runs(o.runs);
  answer.law = answer.fitted ? answer.fitted->law : sizing::loss_laws()[0];
  answer.assumptions = assumptions_of(o, answer);
  const double most = answer.budget.total_flops() / answer.budget.tokens;
  answer.model = sizing::best_shape(answer.task, sizing::Cost::flops_per_token, most);
  if (answer.model.shape.layers == 0) {
    const sizing::SizedModel least = sizing::size_of(answer.task, {2, 256, 4});
    throw UserError(
        "the budget pays for no model: even {} parameters take {:.3g} days for {} tokens, --days "
        "is {}; give more --days or --gpus, or fewer --tokens",
        report::human_count(static_cast<double>(least.parameters)),
        days_of(answer.budget, least, answer.budget.tokens),
        report::human_count(answer.budget.tokens), answer.budget.days);
  }
  answer.days = days_of(answer.budget, answer.model, answer.budget.tokens);
  answer.alternatives = alternatives_of(answer);
  return answer;
}

config::Recipe budget_recipe(const BudgetOptions& o, const BudgetAnswer& answer) {
  sizing::RecipeOptions options{.gpus = o.run->gpus, .tokens = answer.budget.tokens};
  if (o.run->nemo) {
    const sizing::NemoBase base = sizing::nemo_base(answer.nemo_size, answer.task.sequence,
                                                    o.gpu_memory_gb, *answer.nemo_family);
    options.global_batch = base.global_batch;
    options.lr = answer.nemo_shape->lr;
    return sizing::nemo_recipe(*answer.nemo_shape, base, *answer.nemo_family, answer.task, options);
  }
  options.global_batch = sizing::usual_batch(answer.model.parameters, answer.task.sequence);
  options.lr = sizing::usual_learning_rate(answer.model.parameters);
  // A tenth is left to what a GPU holds beside the plan: the driver, libraries, fragments.
  const auto memory = static_cast<int64_t>(0.9e9 * o.gpu_memory_gb);
  const device::Target target = device::cpu_target(1);
  return sizing::fitting_recipe(
      answer.task, answer.model, options, memory, [&](const config::Recipe& recipe) {
        int64_t most = 0;
        for (const account::MemoryByClass& rank :
             account::plan_memory(engine::settings_of(recipe, 0), target, {}))
          most = std::max(most, rank.total);
        return most;
      });
}

}  // namespace megalith::apps
