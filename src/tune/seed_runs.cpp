// SPDX-License-Identifier: Apache-2.0
#include "tune/seed_runs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/metrics.h"

namespace megalith::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLoss[] = "validation_loss";

double lowest_if_none(double x) { return std::isnan(x) ? -HUGE_VAL : x; }

/// Every number of a run by name.
metrics::Scores numbers_of(const SeedRun& run) {
  metrics::Scores numbers{{kLoss, run.loss}};
  numbers.insert(numbers.end(), run.scores.begin(), run.scores.end());
  for (const auto& [name, loss] : run.task_losses)
    numbers.emplace_back(fmt::format("{}/{}", kLoss, name), loss);
  return numbers;
}

double median_of_sorted(std::span<const double> sorted) {
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/// The run's score of a name. IntegrityError where its validations give none.
double score_of(const SeedRun& run, std::string_view name) {
  const auto found = std::ranges::find(run.scores, name, &metrics::Scores::value_type::first);
  if (found == run.scores.end())
    throw IntegrityError("{}: its validation has no {}", run.result, name);
  return found->second;
}

/// Whether a run's validation is better by that number than another of it, or the first.
bool is_better(const SeedRun& now, const SeedRun& before, config::BestBy by) {
  if (by == config::BestBy::loss) return std::isnan(before.loss) || now.loss < before.loss;
  const double was = score_of(before, name_of(by));
  return std::isnan(was) || score_of(now, name_of(by)) > was;
}

/// The name of the score that runs are compared by; empty: their loss.
std::string compared_by(const SeedRun& run, config::BestBy by) {
  if (by != config::BestBy::loss) return std::string(name_of(by));
  return run.scores.empty() ? "" : run.scores.front().first;
}

const SeedRun& best_of(std::span<const SeedRun> runs, const std::string& score) {
  const auto rank = [&](const SeedRun& run) {
    return std::pair(score.empty() ? 0 : lowest_if_none(score_of(run, score)),
                     std::isnan(run.loss) ? -HUGE_VAL : -run.loss);
  };
  return *std::ranges::max_element(runs, {}, rank);
}

/// Says where the result of a run is, of several tasks where each one's is, too.
void add_result(const SeedRun& run, Json& json) {
  json["result"] = run.result;
  for (const auto& [task, folder] : run.adapters) json["adapters"][task] = folder;
}

std::string cell(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_number_float() ? fmt::format("{:.4f}", value.get<double>()) : value.dump();
}

}  // namespace

std::vector<config::Recipe> recipes_of_seeds(const config::Recipe& recipe) {
  if (recipe.tune.seeds == 1) return {recipe};
  std::vector<config::Recipe> recipes;
  for (int64_t i = 0; i < recipe.tune.seeds; ++i) {
    config::Recipe one = recipe;
    one.tune.seeds = 1;
    one.run.seed += i;
    one.run.out =
        (std::filesystem::path(recipe.run.out) / fmt::format("seed-{}", one.run.seed)).string();
    recipes.push_back(std::move(one));
  }
  return recipes;
}

SeedRun read_seed_run(int64_t seed, const std::filesystem::path& folder,
                      std::optional<config::BestBy> best) {
  SeedRun run{.seed = seed, .result = folder.string()};
  report::visit_metrics(folder / "metrics.jsonl", [&](const report::StepMetrics& line) {
    if (!line.validation_loss) return;
    const SeedRun now{.seed = seed,
                      .result = run.result,
                      .step = line.step,
                      .loss = *line.validation_loss,
                      .scores = line.validation_scores,
                      .task_losses = line.validation_task_losses};
    if (best && run.step > 0 && !is_better(now, run, *best)) return;
    run = now;
  });
  if (run.step == 0)
    throw IntegrityError("{}: holds no validation", (folder / "metrics.jsonl").string());
  return run;
}

Json comparison_of(std::span<const SeedRun> runs, config::BestBy by) {
  Json json;
  std::vector<std::pair<std::string, std::vector<double>>> columns;
  for (const auto& [name, value] : numbers_of(runs.front())) columns.push_back({name, {}});
  for (const SeedRun& run : runs) {
    Json line{{"seed", run.seed}};
    add_result(run, line);
    line["step"] = run.step;
    const metrics::Scores numbers = numbers_of(run);
    if (numbers.size() != columns.size())
      throw IntegrityError("{}: its validation has other scores than that of {}", run.result,
                           runs.front().result);
    for (size_t i = 0; i < columns.size(); ++i) {
      line[numbers[i].first] = numbers[i].second;
      columns[i].second.push_back(numbers[i].second);
    }
    json["seeds"].push_back(std::move(line));
  }
  for (auto& [name, values] : columns) {
    std::ranges::sort(values, {}, lowest_if_none);
    json["median"][name] = median_of_sorted(values);
    json["minimum"][name] = values.front();
    json["maximum"][name] = values.back();
  }
  const std::string score = compared_by(runs.front(), by);
  const SeedRun& best = best_of(runs, score);
  json["best"] = {{"seed", best.seed}, {"by", score.empty() ? kLoss : score}};
  add_result(best, json["best"]);
  // What is no number is null from here on, and a folder's name text.
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string table_of(const Json& comparison) {
  std::vector<std::vector<std::string>> rows{{"seed", "step"}};
  for (const auto& [name, value] : comparison.at("median").items()) rows[0].push_back(name);
  const auto add = [&](std::vector<std::string> first, const Json& numbers) {
    for (size_t i = 2; i < rows[0].size(); ++i) first.push_back(cell(numbers.at(rows[0][i])));
    rows.push_back(std::move(first));
  };
  for (const Json& run : comparison.at("seeds")) add({cell(run["seed"]), cell(run["step"])}, run);
  for (const char* const name : {"median", "minimum", "maximum"})
    add({name, ""}, comparison.at(name));
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    text += fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t i = 1; i < row.size(); ++i) text += fmt::format("  {:>{}}", row[i], widths[i]);
    text += '\n';
  }
  const Json& best = comparison.at("best");
  std::vector<std::string> folders;
  for (const Json& folder : best.value("adapters", Json::object())) folders.push_back(folder);
  if (folders.empty()) folders.push_back(best["result"]);
  return text + fmt::format("the best by {} is seed {}: {}\n", best["by"].get<std::string>(),
                            best["seed"].get<int64_t>(), fmt::join(folders, ", "));
}

}  // namespace megalith::tune
