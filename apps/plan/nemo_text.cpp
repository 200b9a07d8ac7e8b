// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "account/plan.h"
#include "apps/plan/nemo_search.h"
#include "apps/plan/search_text.h"
#include "costs/step_time.h"

namespace megalith::apps {
namespace {

using account::bytes_text;

/// Counts of what may be said of a candidate.
struct Counts {
  size_t out_of_memory = 0, no_layout = 0;
};
Counts counts_of(const NemoAnswer& answer) {
  Counts counts;
  for (const NemoRow& row : answer.rows) {
    counts.no_layout += !row.judged;
    counts.out_of_memory += row.judged && !row.fits;
  }
  return counts;
}

std::string head_text(const NemoAnswer& a, const NemoInputs& in) {
  const sizing::NemoModel& m = a.search.model;
  const Counts counts = counts_of(a);
  return fmt::format(
      "NeMo's auto-configurator, told {} billion parameters ({}) and {} GPUs, {} a node, with {} "
      "GB:\n"
      "  tensor {}, pipeline {}, micro-batch {}, {} to {} ranks of a model{}\n"
      "{} candidates: {} fit into {} a device, {} run out of memory{}\n\n",
      m.size, sizing::name_in_files(m.family), m.gpus, a.search.gpus_per_node, m.memory_gb,
      fmt::join(a.grid.tensor, " "), fmt::join(a.grid.pipeline, " "),
      fmt::join(a.grid.micro_batch, " "), a.grid.least, a.grid.most,
      m.block ? ", blocks of recomputed layers" : "", a.rows.size(), a.ranked.size(),
      bytes_text(in.cluster.usable_memory()), counts.out_of_memory,
      counts.no_layout > 0 ? fmt::format(", {} are no layouts here", counts.no_layout) : "");
}

/// What the tool's runs would have found out by failing.
std::string lost_text(const NemoAnswer& a, const NemoInputs& in) {
  std::string text;
  std::map<std::string, size_t> faults;
  for (const NemoRow& row : a.rows) {
    if (!row.judged) ++faults[row.layout.fault];
    if (!row.judged || row.fits) continue;
    if (text.empty()) text = "\nOut of memory, as it would find out by running them:\n";
    text += fmt::format("  run {}: {} of {}: {}\n", row.run, bytes_text(row.judged->memory_bytes),
                        bytes_text(in.cluster.usable_memory()), row.judged->point.text());
  }
  if (!faults.empty()) text += "\nNo layouts here:\n";
  for (const auto& [fault, count] : faults) text += fmt::format("  {} x {}\n", count, fault);
  return text;
}

std::string own_text(const NemoAnswer& a) {
  const search::Candidate& own = a.result.best.front();
  std::string text = fmt::format("\nThe best of all {} layouts{}:\n     {}\n", a.result.judged,
                                 a.ranked.empty() ? ", none of them NeMo's" : "", ranking_row(own));
  if (a.ranked.empty()) return text;
  const search::Candidate& nemo = *a.rows[a.ranked.front()].judged;
  if (nemo.point == own.point) return text + "It is NeMo's best.\n";
  const double more = 100 * (nemo.time.seconds / own.time.seconds - 1);
  return text + fmt::format("NeMo's best takes {:.1f} % more; from it set {}\n", more,
                            search::changes_text(nemo.point, own.point));
}

nlohmann::ordered_json refused_json(const NemoAnswer& a, const NemoInputs& in) {
  auto all = nlohmann::ordered_json::array();
  for (const NemoRow& row : a.rows) {
    if (row.fits) continue;
    nlohmann::ordered_json json = {
        {"reason", row.judged ? fmt::format("memory: {} of {}", row.judged->memory_bytes,
                                            in.cluster.usable_memory())
                              : row.layout.fault},
        {"count", 1},
        {"mend", ""},
        {"run", row.run},
        {"name", sizing::run_name(a.search, row.layout.candidate)}};
    if (row.judged) json["memory_bytes"] = row.judged->memory_bytes;
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace

std::string nemo_text(const NemoAnswer& a, const NemoInputs& in, size_t top) {
  std::string text = head_text(a, in);
  if (!a.ranked.empty()) text += ranking_header();
  for (size_t i = 0; i < std::min(top, a.ranked.size()); ++i) {
    const NemoRow& row = a.rows[a.ranked[i]];
    text += fmt::format("{:>3}. {} (run {})\n", i + 1, ranking_row(*row.judged), row.run);
  }
  text += lost_text(a, in) + own_text(a) + "\nPredicted, not measured. It rests on:\n";
  for (const std::string& line : costs::assumptions(
           in.cluster, search::settings_at(in.settings, a.result.best.front().point)))
    text += "  " + line + "\n";
  return text;
}

nlohmann::ordered_json nemo_json(const NemoAnswer& a, const NemoInputs& in) {
  const sizing::NemoModel& m = a.search.model;
  const SearchReport report{in.recipe, in.settings, in.cluster, a.result};
  nlohmann::ordered_json json;
  json["candidates"] = nlohmann::ordered_json::array();
  const auto whole = [&](const search::Candidate& c) {
    nlohmann::ordered_json row = candidate_json(report, c);
    row["recipe"] =
        nlohmann::ordered_json::parse(config::to_json(search::recipe_at(in.recipe, c.point)));
    return row;
  };
  for (const size_t i : a.ranked) {
    nlohmann::ordered_json row = whole(*a.rows[i].judged);
    row["run"] = a.rows[i].run;
    row["name"] = sizing::run_name(a.search, a.rows[i].layout.candidate);
    json["candidates"].push_back(std::move(row));
  }
  json["refused"] = refused_json(a, in);
  json["seconds"] = a.result.seconds;
  json["devices"] = m.gpus;
  json["nemo"] = {{"family", sizing::name_in_files(m.family)},
                  {"size_in_b", m.size},
                  {"nodes", a.search.nodes},
                  {"gpus_per_node", a.search.gpus_per_node},
                  {"gpu_memory_gb", m.memory_gb},
                  {"tensor", a.grid.tensor},
                  {"pipeline", a.grid.pipeline},
                  {"micro_batch", a.grid.micro_batch},
                  {"min_model_parallel", a.grid.least},
                  {"max_model_parallel", a.grid.most},
                  {"runs", a.rows.size()},
                  {"out_of_memory", counts_of(a).out_of_memory}};
  json["best_of_all"] = whole(a.result.best.front());
  json["judged"] = a.result.judged;
  json["assumptions"] =
      costs::assumptions(in.cluster, search::settings_at(in.settings, a.result.best.front().point));
  return json;
}

}  // namespace megalith::apps
