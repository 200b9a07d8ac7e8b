// SPDX-License-Identifier: Apache-2.0
// megalith plan --inference: how a model is served best under limits of latency, by a table that
// was measured or by predictions for a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/plan/plan_modes.h"
#include "base/error.h"
#include "engine/from_recipe.h"
#include "report/quantity.h"
#include "serving_plan/candidate.h"
#include "serving_plan/deployment_search.h"
#include "serving_plan/measured_table.h"
#include "store/model_source.h"

namespace megalith::apps {
namespace {

using serving_plan::Candidate;
using serving_plan::Ranking;

struct InferenceOptions {
  std::shared_ptr<RunSize> run;
  std::shared_ptr<RecipeOptions> model;
  std::string measured;
  serving_plan::Limits limits;
  serving_plan::Workload workload;
  std::vector<std::string> weights = {"bf16"};
};

nlohmann::ordered_json row_json(const Candidate& c, const std::string& fault) {
  nlohmann::ordered_json json = {{"tp", c.tensor}, {"pp", c.pipeline}, {"bs", c.batch}};
  if (c.details) {
    json["weights"] = c.details->weights;
    json["chunk"] = c.details->chunk;
    json["memory_bytes"] = c.details->memory;
    json["kv_blocks"] = c.details->blocks;
  }
  if (c.failure.empty()) {
    json["latency_ms"] = c.latency_ms;
    if (c.ttft_ms) json["ttft_ms"] = *c.ttft_ms;
    if (c.tpot_ms) json["tpot_ms"] = *c.tpot_ms;
    json["throughput_per_gpu"] = c.throughput;
  }
  if (!fault.empty()) json["refused"] = fault;
  return json;
}

void print_ranking_json(const std::vector<Candidate>& rows, const Ranking& ranking,
                        const std::vector<std::string>& assumptions) {
  nlohmann::ordered_json json;
  const auto row = [&](size_t i) { return row_json(rows[i], ranking.faults[i]); };
  json["pick"] = row(ranking.order.front());
  for (const size_t i : ranking.pareto) json["pareto"].push_back(row(i));
  for (size_t i = 0; i < rows.size(); ++i) json["rows"].push_back(row(i));
  if (!assumptions.empty()) json["assumptions"] = assumptions;
  print_json(json);
}

void print_row(const Candidate& c, std::string_view mark) {
  const auto number = [](std::optional<double> value) {
    return value ? fmt::format("{:.1f}", *value) : std::string("-");
  };
  fmt::print("{:<7} {:>3} {:>3} {:>5} {:>12.1f} {:>9} {:>9} {:>15.3f}", mark, c.tensor, c.pipeline,
             c.batch, c.latency_ms, number(c.ttft_ms), number(c.tpot_ms), c.throughput);
  if (c.details)
    fmt::print(" {:>7} {:>6} {:>10}", c.details->weights, c.details->chunk,
               report::human_bytes(c.details->memory));
  fmt::print("\n");
}

/// What is out, by cause; numbers in causes apart.
void print_refused(const std::vector<Candidate>& rows, const Ranking& ranking) {
  std::map<std::string, size_t> failures;
  size_t out = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string& failure = rows[i].failure;
    if (!failure.empty()) ++failures[failure.substr(0, failure.find(':'))];
    out += !ranking.faults[i].empty() && failure.empty();
  }
  fmt::print("\n{} rows; {} break a limit", rows.size(), out);
  for (const auto& [cause, count] : failures) fmt::print("; {} without figures: {}", count, cause);
  fmt::print("\n");
}

/// The best ones, which of them are on the Pareto front, and the front.
void print_ranking(const std::vector<Candidate>& rows, const Ranking& ranking,
                   const std::vector<std::string>& assumptions) {
  constexpr size_t kShown = 10;
  fmt::print("{:<7} {:>3} {:>3} {:>5} {:>12} {:>9} {:>9} {:>15}", "", "TP", "PP", "BS",
             "latency ms", "TTFT ms", "TPOT ms", "requests/s/GPU");
  if (rows.front().details) fmt::print(" {:>7} {:>6} {:>10}", "weights", "chunk", "memory");
  fmt::print("\n");
  for (size_t k = 0; k < std::min(kShown, ranking.order.size()); ++k) {
    const size_t i = ranking.order[k];
    const bool is_on = std::ranges::find(ranking.pareto, i) != ranking.pareto.end();
    print_row(rows[i], k == 0 ? "pick" : is_on ? "pareto" : "");
  }
  fmt::print("\nPareto front, from the lowest latency to the highest throughput:\n");
  for (const size_t i : ranking.pareto) print_row(rows[i], "");
  print_refused(rows, ranking);
  for (const std::string& assumption : assumptions) fmt::print("- {}\n", assumption);
}

models::ModelSpec spec_of(const RecipeOptions& o) {
  const std::filesystem::path path = o.path;
  if (std::filesystem::is_directory(path) || path.extension() == ".gguf") {
    if (!o.overrides.empty())
      throw UserError("--set changes a recipe, and {} is a checkpoint", o.path);
    return store::ModelSource::open(path).spec();
  }
  const config::Recipe recipe = o.load();
  return engine::settings_of(recipe, vocab_of(recipe)).model;
}

Format weights_named(const std::string& name) {
  for (const Format format : {Format::bf16, Format::q8_0, Format::q4_0, Format::q4_1})
    if (name == name_of(format)) return format;
  throw UserError("--weights {}: give bf16, q8_0, q4_0 or q4_1", name.substr(0, 40));
}

int run_inference(const InferenceOptions& o, bool json) {
  serving_plan::Limits limits = o.limits;
  limits.gpus = o.run->gpus;
  std::vector<Candidate> rows;
  std::vector<std::string> assumptions;
  if (!o.measured.empty()) {
    rows = serving_plan::read_measured_table(o.measured);
  } else {
    if (o.run->cluster.empty())
      throw UserError("plan --inference needs --cluster FILE (recipes/clusters), or --measured");
    const clusters::Cluster cluster = clusters::load_cluster(o.run->cluster);
    serving_plan::SearchSpace space{.most_gpus = o.run->gpus};
    space.weights.clear();
    for (const std::string& name : o.weights) space.weights.push_back(weights_named(name));
    rows = serving_plan::predict_all(spec_of(*o.model), cluster, space, o.workload);
    assumptions = serving_plan::assumptions(cluster, o.workload, rows);
  }
  const Ranking ranking =
      serving_plan::rank(rows, limits, o.measured.empty() ? "plan --inference" : o.measured);
  if (json) {
    print_ranking_json(rows, ranking, assumptions);
  } else {
    print_ranking(rows, ranking, assumptions);
  }
  return 0;
}

void declare_limits(PlanModes& modes, const CLI::Option* mode, InferenceOptions& o) {
  const auto milliseconds = CLI::Range(1e-6, 1e9);
  modes.option(mode, "--max-latency-ms", o.limits.latency_ms, "most milliseconds of a request")
      ->check(milliseconds);
  modes.option(mode, "--max-ttft-ms", o.limits.ttft_ms, "most milliseconds to its first token")
      ->check(milliseconds);
  modes.option(mode, "--max-tpot-ms", o.limits.tpot_ms, "most milliseconds between later tokens")
      ->check(milliseconds);
  modes.option(mode, "--gpus", o.run->gpus, "");
}

void declare_workload(PlanModes& modes, const CLI::Option* mode, InferenceOptions& o,
                      CLI::Option* measured) {
  serving_plan::Workload& w = o.workload;
  modes.option(mode, "--input-tokens", w.input, "tokens of a request's prompt")
      ->check(whole_number(1, 1 << 24))
      ->capture_default_str()
      ->excludes(measured);
  modes.option(mode, "--output-tokens", w.output, "tokens that are written for it")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str()
      ->excludes(measured);
  modes
      .option(mode, "--arrivals", w.arrivals,
              "requests a second at one copy of the model, at random; a batch at once unless given")
      ->check(CLI::Range(1e-6, 1e6))
      ->excludes(measured);
  modes
      .option(mode, "--weights", o.weights,
              "formats of weights to try: bf16, q8_0, q4_0, q4_1 (bf16,q8_0)")
      ->delimiter(',')
      ->excludes(measured);
}

}  // namespace

void add_inference(PlanModes& modes, const std::shared_ptr<RunSize>& run,
                   const std::shared_ptr<RecipeOptions>& model) {
  auto o = std::make_shared<InferenceOptions>();
  o->run = run;
  o->model = model;
  CLI::Option* const mode = modes.add(
      "--inference",
      "which layout and batch serve a recipe's or checkpoint's model best on a --cluster, or of a "
      "--measured table, within limits of latency",
      [o](bool json) { return run_inference(*o, json); }, true, {"--measured"});
  CLI::Option* const measured = modes.option(
      mode, "--measured", o->measured,
      "latencies as CSV with the columns TP,PP,BS,Latency [ms], as NeMo's tool writes them, and "
      "TTFT [ms],TPOT [ms] if they are known");
  modes.option(mode, "--cluster", run->cluster, "")->excludes(measured);
  declare_limits(modes, mode, *o);
  declare_workload(modes, mode, *o, measured);
}

}  // namespace megalith::apps
