// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/plan/budget_options.h"
#include "base/file.h"
#include "report/quantity.h"

namespace megalith::apps {
namespace {

nlohmann::ordered_json shape_json(const sizing::Task& task, const sizing::Shape& shape) {
  return {{"family", task.family}, {"layers", shape.layers},   {"hidden", shape.hidden},
          {"heads", shape.heads},  {"context", task.sequence}, {"vocab", task.vocab}};
}

nlohmann::ordered_json nemo_json(const BudgetAnswer& a) {
  const sizing::NemoShape& shape = *a.nemo_shape;
  nlohmann::ordered_json model = shape_json(a.task, {shape.layers, shape.hidden, shape.heads});
  if (shape.ffn > 0) model["ffn"] = shape.ffn;
  if (shape.head_dim > 0) model["head_dim"] = shape.head_dim;
  return {{"size_in_b", a.nemo_size},
          {"parameters", std::llround(1e9 * sizing::nemo_count(shape, a.task.vocab, a.task.sequence,
                                                               *a.nemo_family))},
          {"model", model},
          {"lr", shape.lr},
          {"days", sizing::nemo_days(a.budget, a.nemo_size, *a.nemo_family)}};
}

double loss_of(const BudgetAnswer& a) {
  return a.law.loss(static_cast<double>(a.model.parameters), a.budget.tokens);
}
double error_of(const BudgetAnswer& a, const sizing::SizedModel& model, double tokens) {
  return a.fitted->standard_error(static_cast<double>(model.parameters), tokens);
}

nlohmann::ordered_json budget_json(const BudgetOptions& o, const BudgetAnswer& a) {
  nlohmann::ordered_json json;
  const bool has_nemo = a.nemo_shape.has_value();
  if (o.run->nemo) {
    const nlohmann::ordered_json nemo = nemo_json(a);
    for (const char* key : {"parameters", "model", "days"}) json[key] = nemo[key];
  } else {
    json["parameters"] = a.model.parameters;
    json["model"] = shape_json(a.task, a.model.shape);
    json["days"] = a.days;
    json["flops_per_token"] = a.model.flops_per_token;
    json["loss"] = loss_of(a);
    if (a.fitted) json["loss_standard_error"] = error_of(a, a.model, a.budget.tokens);
  }
  const double days = json["days"];
  json["tokens"] = a.budget.tokens;
  json["tokens_per_parameter"] = a.budget.tokens / json["parameters"].get<double>();
  json["gpu_hours"] = days * 24 * a.budget.gpus;
  if (o.price > 0) json["cost"] = o.price * days * 24 * a.budget.gpus;
  json["compute_optimal"] = nlohmann::ordered_json::array();
  for (const Alternative& other : a.alternatives)
    json["compute_optimal"].push_back({{"source", other.source},
                                       {"parameters", other.model.parameters},
                                       {"model", shape_json(a.task, other.model.shape)},
                                       {"tokens", other.tokens},
                                       {"days", a.budget.days},
                                       {"loss", other.loss}});
  if (a.fitted)
    json["fitted_law"] = {{"irreducible", a.law.irreducible},
                          {"a", a.law.a},
                          {"b", a.law.b},
                          {"alpha", a.law.alpha},
                          {"beta", a.law.beta},
                          {"runs", o.runs.size()},
                          {"residual", a.fitted->residual}};
  if (has_nemo) json["nemo"] = nemo_json(a);
  json["assumptions"] = a.assumptions;
  return json;
}

void print_line(std::string_view name, double parameters, const sizing::Shape& shape, double tokens,
                double days, const std::string& loss) {
  fmt::print("{:<34} {:>10} {:>6} {:>7} {:>6} {:>9} {:>8.1f} {:>7.2f} {:>6}\n", name,
             report::human_count(parameters), shape.layers, shape.hidden, shape.heads,
             report::human_count(tokens), tokens / parameters, days, loss);
}

void print_table(const BudgetOptions& o, const BudgetAnswer& a) {
  fmt::print(
      "{:.4g} GPUs x {:.4g} days x {:.4g} TFLOP/s: {:.3g} operations, {} GPU hours{}\n\n",
      a.budget.gpus, a.budget.days, a.budget.flops / 1e12, a.budget.total_flops(),
      report::human_count(a.budget.gpus * a.budget.days * 24),
      o.price > 0
          ? fmt::format(", {} at {} an hour",
                        report::human_count(o.price * a.budget.gpus * a.budget.days * 24), o.price)
          : "");
  fmt::print("{:<34} {:>10} {:>6} {:>7} {:>6} {:>9} {:>8} {:>7} {:>6}\n", "", "parameters",
             "layers", "hidden", "heads", "tokens", "tokens/p", "days", "loss");
  print_line(fmt::format("{}, exact counts", a.task.family),
             static_cast<double>(a.model.parameters), a.model.shape, a.budget.tokens, a.days,
             fmt::format("{:.3f}", loss_of(a)));
  if (a.nemo_shape) {
    const sizing::NemoShape& shape = *a.nemo_shape;
    print_line(fmt::format("NeMo: {} billion asked for", a.nemo_size),
               1e9 * sizing::nemo_count(shape, a.task.vocab, a.task.sequence, *a.nemo_family),
               {shape.layers, shape.hidden, shape.heads}, a.budget.tokens,
               sizing::nemo_days(a.budget, a.nemo_size, *a.nemo_family), "");
  } else if (!a.nemo_fault.empty()) {
    fmt::print("NeMo: no shape for {} billion\n", a.nemo_size);
  }
  fmt::print("\nbest for these operations:\n");
  for (const Alternative& other : a.alternatives)
    print_line(other.source.substr(0, other.source.find(" (")),
               static_cast<double>(other.model.parameters), other.model.shape, other.tokens,
               a.budget.days, fmt::format("{:.3f}", other.loss));
  fmt::print("\nloss: nats a token by {}; below that, each line by its own law\n", a.law.source);
  if (a.fitted)
    fmt::print("of the first line it is {:.3f} +- {:.3f} (standard error, by leaving out runs)\n",
               loss_of(a), error_of(a, a.model, a.budget.tokens));
  for (const std::string& assumption : a.assumptions) fmt::print("- {}\n", assumption);
}

}  // namespace

void print_budget(const BudgetOptions& options, const BudgetAnswer& answer, bool json) {
  if (json) {
    print_json(budget_json(options, answer));
  } else {
    print_table(options, answer);
  }
}

void add_budget(PlanModes& modes, const std::shared_ptr<RunSize>& run) {
  auto o = std::make_shared<BudgetOptions>();
  o->run = run;
  CLI::Option* const budget =
      modes.add("--budget",
                "instead of a recipe: the model that --gpus, --days, --tokens and --tflops pay for",
                [o](bool json) {
                  const BudgetAnswer answer = answer_budget(*o);
                  if (!o->run->output.empty())
                    write_file_durable(o->run->output, config::to_yaml(budget_recipe(*o, answer)));
                  print_budget(*o, answer, json);
                  return 0;
                });
  modes.option(budget, "--gpus", run->gpus, "");
  modes.option(budget, "--days", run->days, "days of training");
  modes.option(budget, "--tokens", o->tokens, "tokens to train on: 300B, 1.4T, 3e11");
  modes.option(budget, "--tflops", o->tflops, "TFLOP/s that each GPU achieves");
  modes
      .option(budget, "--family", o->family,
              "gpt, bert, t5, or any family of models; with --nemo gpt, bert, t5 or mt5")
      ->capture_default_str();
  modes.flag(budget, "--nemo", run->nemo, "");
  modes.option(budget, "--vocab", o->vocab, "vocabulary (51200; masked models 30522, t5 32128)")
      ->check(whole_number(1, 10'000'000));
  modes.option(budget, "--sequence", o->sequence, "tokens of a sample (2048; others 512)")
      ->check(whole_number(1, 1 << 24));
  modes
      .option(budget, "--recompute", o->recompute,
              "what of forward is computed twice, and counted in --tflops")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
  modes
      .option(budget, "--gpu-memory-gb", o->gpu_memory_gb,
              "memory of a GPU, for the layout of --output")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  modes.option(budget, "--price", o->price, "what an hour of a GPU costs")
      ->check(CLI::Range(0.0, 1e9));
  modes
      .option(budget, "--fit-loss", o->runs,
              "folders of small runs that a loss law is fitted to, six at least")
      ->expected(1, -1);
  modes.option(budget, "--output", run->output, "");
}

}  // namespace megalith::apps
