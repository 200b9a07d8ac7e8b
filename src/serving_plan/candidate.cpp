// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/candidate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace megalith::serving_plan {
namespace {

struct LimitRow {
  const char* option;
  const char* what;
  double Limits::*most;
  std::optional<double> (*value)(const Candidate&);
};
constexpr LimitRow kLimits[] = {
    {"--max-latency-ms", "latency", &Limits::latency_ms,
     [](const Candidate& c) -> std::optional<double> { return c.latency_ms; }},
    {"--max-ttft-ms", "time to the first token (column 'TTFT [ms]')", &Limits::ttft_ms,
     [](const Candidate& c) { return c.ttft_ms; }},
    {"--max-tpot-ms", "time between tokens (column 'TPOT [ms]')", &Limits::tpot_ms,
     [](const Candidate& c) { return c.tpot_ms; }},
};

/// The nearest miss of a limit, for a message.
std::string nearest_miss(std::span<const Candidate> candidates, const Limits& limits) {
  for (const LimitRow& row : kLimits) {
    const double most = limits.*row.most;
    if (most == 0) continue;
    std::optional<double> least;
    for (const Candidate& c : candidates) {
      const auto value = c.failure.empty() ? row.value(c) : std::nullopt;
      if (value && (!least || *value < *least)) least = value;
    }
    if (least && *least > most)
      return fmt::format("; the least {} is {:.6g} ms, {} is {:.6g}", row.what, *least, row.option,
                         most);
  }
  return "; each breaks one of them: raise a limit";
}

}  // namespace

double throughput_of(const Candidate& c) {
  return static_cast<double>(c.batch) * 1000 / c.latency_ms / static_cast<double>(c.gpus());
}

std::string fault_of(const Candidate& c, const Limits& limits) {
  if (!c.failure.empty()) return c.failure;
  if (limits.gpus > 0 && c.gpus() > limits.gpus)
    return fmt::format("takes {} GPUs, --gpus is {}", c.gpus(), limits.gpus);
  for (const LimitRow& row : kLimits) {
    const double most = limits.*row.most;
    if (most == 0) continue;
    const auto value = row.value(c);
    if (!value)
      throw UserError("{} limits the {}, which not every row has; leave the option out, or give it",
                      row.option, row.what);
    if (*value > most) return fmt::format("{:.6g} ms, {} is {:.6g}", *value, row.option, most);
  }
  return "";
}

Ranking rank(std::span<const Candidate> candidates, const Limits& limits, const std::string& what) {
  Ranking ranking;
  for (size_t i = 0; i < candidates.size(); ++i) {
    ranking.faults.push_back(fault_of(candidates[i], limits));
    if (ranking.faults.back().empty()) ranking.order.push_back(i);
  }
  if (ranking.order.empty()) {
    const bool failed =
        std::ranges::all_of(candidates, [](const Candidate& c) { return !c.failure.empty(); });
    if (failed)
      throw UserError("{}: none of {} rows has a latency; the first says '{}'", what,
                      candidates.size(), candidates.empty() ? "" : candidates[0].failure);
    throw UserError("{}: none of {} rows keeps to the limits{}", what, candidates.size(),
                    nearest_miss(candidates, limits));
  }
  std::ranges::stable_sort(ranking.order, [&](size_t a, size_t b) {
    const Candidate &left = candidates[a], &right = candidates[b];
    if (left.throughput != right.throughput) return left.throughput > right.throughput;
    return left.latency_ms < right.latency_ms;
  });
  double fastest = 0;
  for (const size_t i : ranking.order) {
    if (!ranking.pareto.empty() && candidates[i].latency_ms >= fastest) continue;
    fastest = candidates[i].latency_ms;
    ranking.pareto.push_back(i);
  }
  std::ranges::reverse(ranking.pareto);
  return ranking;
}

}  // namespace megalith::serving_plan
