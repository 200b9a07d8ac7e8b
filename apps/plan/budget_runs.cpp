// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/plan/budget_options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_number.h"
#include "report/metrics.h"

namespace megalith::apps {
namespace {

constexpr int64_t kLargestRunJson = 1 << 24;

double parameters_of(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "run.json";
  if (!std::filesystem::exists(path))
    throw UserError("--fit-loss {}: has no run.json; give folders of runs", run.string());
  const auto json = nlohmann::json::parse(read_file(path, kLargestRunJson), nullptr, false);
  const auto found = json.is_object() && json.contains("parameters")
                         ? whole_number_in(json["parameters"])
                         : std::nullopt;
  if (!found || *found < 1)
    throw UserError("--fit-loss {}: does not say how many parameters the run has", path.string());
  return static_cast<double>(*found);
}

/// The last validation's loss, or the mean loss of the last twentieth of the steps.
sizing::LossPoint point_of(const std::filesystem::path& run) {
  sizing::LossPoint point{parameters_of(run), 0, 0};
  const std::vector<report::StepMetrics> steps = report::read_metrics(run / "metrics.jsonl");
  if (steps.empty()) throw UserError("--fit-loss {}: no step was made", run.string());
  for (const report::StepMetrics& step : steps) {
    if (!step.validation_loss) continue;
    point.tokens = static_cast<double>(step.tokens);
    point.loss = *step.validation_loss;
  }
  if (point.tokens > 0) return point;
  const size_t last = std::max<size_t>(1, steps.size() / 20);
  for (size_t i = steps.size() - last; i < steps.size(); ++i)
    point.loss += steps[i].loss / static_cast<double>(last);
  point.tokens = static_cast<double>(steps.back().tokens);
  return point;
}

}  // namespace

sizing::FittedLaw fit_runs(const std::vector<std::string>& runs) {
  std::vector<sizing::LossPoint> points;
  for (const std::string& run : runs) points.push_back(point_of(run));
  return sizing::fit_law(points);
}

}  // namespace megalith::apps
