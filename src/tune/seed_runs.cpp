// SPDX-License-Identifier: Apache-2.0
#include "tune/seed_runs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/log.h"
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

/// Its values are those of all runs, in order.
struct Column {
  std::string name;
  std::vector<double> values;
};

/// Of what all runs have, in the order of the first one.
std::vector<Column> shared_columns(std::span<const SeedRun> runs) {
  std::map<std::string, std::vector<double>> values;
  for (const SeedRun& run : runs)
    for (const auto& [name, value] : numbers_of(run)) values[name].push_back(value);
  std::vector<Column> columns;
  for (const auto& [name, value] : numbers_of(runs.front()))
    if (values[name].size() == runs.size()) columns.push_back({name, std::move(values[name])});
  if (columns.size() < values.size())
    log::warning(
        "tune.seeds: not all seeds have the same numbers, as where one finished with an older "
        "version; those that only some have are left out");
  return columns;
}

/// The run's score of a name. UserError where its validation gives none.
double score_of(const SeedRun& run, std::string_view name) {
  const auto found = std::ranges::find(run.scores, name, &metrics::Scores::value_type::first);
  if (found == run.scores.end())
    throw UserError(
        "recipe: train.best_by: seeds are compared by {}, and the validation of seed {} has none "
        "(an older version may have written it); move that seed's folder away, and it is run "
        "again: {}",
        name, run.seed, run.result);
  return found->second;
}

/// The name of the score that runs are compared by; empty: their loss.
std::string compared_by(const SeedRun& first, std::span<const Column> shared, config::BestBy by) {
  if (by != config::BestBy::loss) return std::string(name_of(by));
  for (const auto& [name, value] : first.scores)
    if (std::ranges::find(shared, name, &Column::name) != shared.end()) return name;
  return "";
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
                      std::optional<int64_t> step) {
  SeedRun run{.seed = seed, .result = folder.string()};
  report::visit_metrics(folder / "metrics.jsonl", [&](const report::StepMetrics& line) {
    if (!line.validation_loss || (step && line.step != *step)) return;
    run.step = line.step;
    run.loss = *line.validation_loss;
    run.scores = line.validation_scores;
    run.task_losses = line.validation_task_losses;
  });
  if (run.step == 0)
    throw IntegrityError("{}: holds no validation{}", (folder / "metrics.jsonl").string(),
                         step ? fmt::format(" of step {}", *step) : "");
  return run;
}

Json comparison_of(std::span<const SeedRun> runs, config::BestBy by) {
  Json json;
  std::vector<Column> columns = shared_columns(runs);
  const std::string score = compared_by(runs.front(), columns, by);
  const SeedRun& best = best_of(runs, score);
  for (size_t i = 0; i < runs.size(); ++i) {
    Json line{{"seed", runs[i].seed}};
    add_result(runs[i], line);
    line["step"] = runs[i].step;
    for (const auto& [name, values] : columns) line[name] = values[i];
    json["seeds"].push_back(std::move(line));
  }
  for (auto& [name, values] : columns) {
    std::ranges::sort(values, {}, lowest_if_none);
    json["median"][name] = median_of_sorted(values);
    json["minimum"][name] = values.front();
    json["maximum"][name] = values.back();
  }
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
  for (const Json& folder : best.value("adapters", Json::object()))
    folders.push_back(folder.get<std::string>());
  if (folders.empty()) folders.push_back(best["result"].get<std::string>());
  return text + fmt::format("the best by {} is seed {}: {}\n", best["by"].get<std::string>(),
                            best["seed"].get<int64_t>(), fmt::join(folders, ", "));
}

}  // namespace megalith::tune
