// SPDX-License-Identifier: Apache-2.0
// megalith plan --inference: how a model is served best under limits of latency.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/plan/plan_modes.h"
#include "base/error.h"
#include "serving_plan/candidate.h"
#include "serving_plan/measured_table.h"

namespace megalith::apps {
namespace {

using serving_plan::Candidate;
using serving_plan::Ranking;

struct InferenceOptions {
  std::shared_ptr<RunSize> run;
  std::string measured;
  serving_plan::Limits limits;
};

nlohmann::ordered_json row_json(const Candidate& c, const std::string& fault) {
  nlohmann::ordered_json json = {{"tp", c.tensor}, {"pp", c.pipeline}, {"bs", c.batch}};
  if (c.failure.empty()) {
    json["latency_ms"] = c.latency_ms;
    if (c.ttft_ms) json["ttft_ms"] = *c.ttft_ms;
    if (c.tpot_ms) json["tpot_ms"] = *c.tpot_ms;
    json["throughput_per_gpu"] = c.throughput;
  }
  if (!fault.empty()) json["refused"] = fault;
  return json;
}

void print_ranking_json(const std::vector<Candidate>& rows, const Ranking& ranking) {
  nlohmann::ordered_json json;
  const auto row = [&](size_t i) { return row_json(rows[i], ranking.faults[i]); };
  json["pick"] = row(ranking.order.front());
  for (const size_t i : ranking.pareto) json["pareto"].push_back(row(i));
  for (size_t i = 0; i < rows.size(); ++i) json["rows"].push_back(row(i));
  print_json(json);
}

/// The best ones; which of them are on the Pareto front; how many are out and why.
void print_ranking(const std::vector<Candidate>& rows, const Ranking& ranking) {
  constexpr size_t kShown = 10;
  const auto number = [](std::optional<double> value) {
    return value ? fmt::format("{:.1f}", *value) : std::string("-");
  };
  fmt::print("{:<8} {:>4} {:>4} {:>5} {:>12} {:>9} {:>9} {:>16}\n", "", "TP", "PP", "BS",
             "latency ms", "TTFT ms", "TPOT ms", "requests/s/GPU");
  const auto line = [&](size_t i, std::string_view mark) {
    const Candidate& c = rows[i];
    fmt::print("{:<8} {:>4} {:>4} {:>5} {:>12.1f} {:>9} {:>9} {:>16.3f}\n", mark, c.tensor,
               c.pipeline, c.batch, c.latency_ms, number(c.ttft_ms), number(c.tpot_ms),
               c.throughput);
  };
  for (size_t k = 0; k < std::min(kShown, ranking.order.size()); ++k) {
    const size_t i = ranking.order[k];
    const bool is_on = std::ranges::find(ranking.pareto, i) != ranking.pareto.end();
    line(i, k == 0 ? "pick" : is_on ? "pareto" : "");
  }
  fmt::print("\nPareto front, latency against throughput:\n");
  for (const size_t i : ranking.pareto) line(i, "");
  std::map<std::string, size_t> failures;
  size_t out = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].failure.empty()) ++failures[rows[i].failure];
    out += !ranking.faults[i].empty() && rows[i].failure.empty();
  }
  fmt::print("\n{} rows; {} break a limit", rows.size(), out);
  for (const auto& [cause, count] : failures) fmt::print("; {} without figures: {}", count, cause);
  fmt::print("\n");
}

int run_inference(const InferenceOptions& o, bool json) {
  serving_plan::Limits limits = o.limits;
  limits.gpus = o.run->gpus;
  const std::vector<Candidate> rows = serving_plan::read_measured_table(o.measured);
  const Ranking ranking = serving_plan::rank(rows, limits, o.measured);
  if (json) {
    print_ranking_json(rows, ranking);
  } else {
    print_ranking(rows, ranking);
  }
  return 0;
}

}  // namespace

void add_inference(PlanModes& modes, const std::shared_ptr<RunSize>& run) {
  auto o = std::make_shared<InferenceOptions>();
  o->run = run;
  CLI::Option* const mode =
      modes.add("--inference", "which layout and batch serve best within limits of latency",
                [o](bool json) { return run_inference(*o, json); });
  modes
      .option(mode, "--measured", o->measured,
              "a table of latencies: CSV with the columns TP,PP,BS,Latency [ms], as NeMo's tool "
              "writes it, and TTFT [ms],TPOT [ms] if they are known")
      ->needs(mode);
  const auto milliseconds = CLI::Range(1e-6, 1e9);
  modes.option(mode, "--max-latency-ms", o->limits.latency_ms, "most milliseconds of a request")
      ->check(milliseconds);
  modes.option(mode, "--max-ttft-ms", o->limits.ttft_ms, "most milliseconds to its first token")
      ->check(milliseconds);
  modes.option(mode, "--max-tpot-ms", o->limits.tpot_ms, "most milliseconds between later tokens")
      ->check(milliseconds);
  modes.option(mode, "--gpus", run->gpus, "");
}

}  // namespace megalith::apps
