// SPDX-License-Identifier: Apache-2.0
// Curves are smoothed at full length and thinned afterwards. Numbers keep seven digits: more than
// any screen shows, and half the size of the page.
#include "report/chart_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/series.h"

namespace megalith::report {

namespace {

using Json = nlohmann::ordered_json;
using Pick = std::function<std::optional<double>(const StepMetrics&)>;

std::vector<Point> curve(const std::vector<StepMetrics>& steps, const Pick& pick) {
  std::vector<Point> points;
  for (const StepMetrics& step : steps) {
    const std::optional<double> y = pick(step);
    if (y && std::isfinite(*y)) points.push_back({static_cast<double>(step.step), *y});
  }
  return points;
}

double seven_digits(double value) { return std::stod(fmt::format("{:.7g}", value)); }

Json to_json(const std::vector<Point>& points) {
  Json x = Json::array();
  Json y = Json::array();
  for (const Point& point : decimate(points, kMaxPoints)) {
    x.push_back(static_cast<int64_t>(point.x));
    y.push_back(seven_digits(point.y));
  }
  return {{"x", std::move(x)}, {"y", std::move(y)}};
}

/// One fiftieth of the run: calm enough to see the trend, short enough to follow it.
int64_t smoothing_window(size_t steps) {
  return std::clamp<int64_t>(static_cast<int64_t>(steps) / 50, 1, 1000);
}

/// Of the first tasks that validations tell of, in their order.
std::vector<std::string> shown_tasks(const std::vector<StepMetrics>& steps) {
  std::vector<std::string> names;
  for (const StepMetrics& step : steps) {
    for (const auto& [name, loss] : step.validation_task_losses) {
      if (names.size() == kMaxTasks) return names;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::optional<double> loss_of(const StepMetrics& step, const std::string& task) {
  const auto& losses = step.validation_task_losses;
  const auto found = std::ranges::find(losses, task, &NamedValues::value_type::first);
  return found == losses.end() ? std::nullopt : std::optional(found->second);
}

Json memory_table(const RunRecord& record) {
  Json table = Json::array();
  for (const std::string& name : memory_classes(record)) {
    Json row = {{"name", name}, {"planned", nullptr}, {"measured", nullptr}};
    if (const auto bytes = record.integer("/memory/planned/" + name)) row["planned"] = *bytes;
    if (const auto bytes = record.integer("/memory/measured/" + name)) row["measured"] = *bytes;
    table.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<std::string> memory_classes(const RunRecord& record) {
  std::vector<std::string> classes;
  for (const char* name : {"weights", "gradients", "optimizer", "activations", "workspace",
                           "snapshot", "outside", "total"}) {
    if (record.integer(std::string("/memory/planned/") + name) ||
        record.integer(std::string("/memory/measured/") + name)) {
      classes.emplace_back(name);
    }
  }
  return classes;
}

std::string chart_data(const RunRecord& record) {
  const int64_t window = smoothing_window(record.steps.size());
  Json curves = Json::object();
  auto add = [&](const std::string& name, bool noisy, const Pick& pick) {
    const std::vector<Point> points = curve(record.steps, pick);
    curves[name] = to_json(points);
    if (noisy && window > 1) {
      curves[name + "_smooth"] = to_json(smooth(points, static_cast<double>(window)));
    }
  };
  add("loss", true, [](const StepMetrics& m) { return m.loss; });
  add("validation_loss", false, [](const StepMetrics& m) { return m.validation_loss; });
  add("lr", false, [](const StepMetrics& m) { return m.lr; });
  add("grad_norm", true, [](const StepMetrics& m) { return m.grad_norm; });
  add("loss_scale", false, [](const StepMetrics& m) { return m.loss_scale; });
  add("tokens_per_second", true, [](const StepMetrics& m) { return m.tokens_per_second; });
  add("mfu", true, [](const StepMetrics& m) { return 100 * m.mfu; });
  add("step_seconds", true, [](const StepMetrics& m) { return m.step_seconds; });
  for (const std::string& task : shown_tasks(record.steps))
    add("validation_loss/" + task, false, [&](const StepMetrics& m) { return loss_of(m, task); });
  const bool compares = std::ranges::any_of(
      record.steps, [](const StepMetrics& m) { return m.compared.has_value(); });
  for (size_t i = 0; compares && i < kComparedNames.size(); ++i) {
    const std::string name(kComparedNames[i]);
    const auto pick = [i](const std::optional<ComparedMeans>& means) {
      return means ? std::optional((*means)[i]) : std::nullopt;
    };
    add(name, true, [pick](const StepMetrics& m) { return pick(m.compared); });
    add("validation_" + name, false,
        [pick](const StepMetrics& m) { return pick(m.validation_compared); });
  }

  Json data;
  data["window"] = window;
  data["ceiling_gflops"] = nullptr;
  if (const auto ceiling = record.number("/gemm_ceiling_gflops")) data["ceiling_gflops"] = *ceiling;
  data["curves"] = std::move(curves);
  data["memory"] = memory_table(record);
  return data.dump();
}

}  // namespace megalith::report
