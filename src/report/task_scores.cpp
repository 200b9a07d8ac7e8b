// SPDX-License-Identifier: Apache-2.0
#include "report/task_scores.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"

namespace megalith::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMostBytes = int64_t{64} << 20;

/// "acc,none" as a metric's name, "exact_match,strict-match" as "exact_match (strict-match)".
std::string metric_name(const std::string& name, const std::string& filter) {
  return filter == "none" ? name : fmt::format("{} ({})", name, filter);
}

using Scores = std::map<std::tuple<std::string, std::string, std::string>, TaskScore>;

void take_task(const std::string& checkpoint, const std::string& task, const Json& result,
               Scores& scores) {
  if (!result.is_object()) return;
  for (const auto& [key, value] : result.items()) {
    const size_t comma = key.find(',');
    if (comma == std::string::npos || !value.is_number()) continue;
    const std::string name = key.substr(0, comma), filter = key.substr(comma + 1);
    if (name.ends_with("_stderr")) continue;
    TaskScore score{checkpoint, task, metric_name(name, filter), value.get<double>(), {}};
    const auto error = result.find(name + "_stderr," + filter);
    if (error != result.end() && error->is_number()) score.error = error->get<double>();
    scores[{task, score.metric, checkpoint}] = std::move(score);
  }
}

void take_file(const fs::path& file, Scores& scores) {
  const std::string text = read_regular(file, kMostBytes);
  if (const auto fault = json_fault(text)) throw IntegrityError("{}: {}", file.string(), *fault);
  const Json json = Json::parse(text);
  if (!json.is_object() || !json.contains("results") || !json["results"].is_object() ||
      !json.contains("model_name") || !json["model_name"].is_string())
    throw IntegrityError("{}: no results of evaluate tasks", file.string());
  fs::path model = fs::path(json["model_name"].get<std::string>()).lexically_normal();
  if (!model.has_filename()) model = model.parent_path();  // a path that ends with /
  for (const auto& [task, result] : json["results"].items())
    take_task(model.filename().string(), task, result, scores);
}

}  // namespace

std::vector<TaskScore> read_task_scores(const fs::path& run_folder) {
  std::vector<fs::path> files;
  const fs::path folder = run_folder / "tasks";
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("results_") && name.ends_with(".json")) files.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw SystemError("{}: {}", folder.string(), error.message());
  // Names end with their dates, so the newest of a checkpoint comes last.
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.filename().string(); });
  Scores scores;
  for (const fs::path& file : files) take_file(file, scores);
  std::vector<TaskScore> all;
  for (auto& [key, score] : scores) all.push_back(std::move(score));
  return all;
}

}  // namespace megalith::report
