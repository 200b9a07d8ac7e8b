// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/trial_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"

namespace megalith::apps {
namespace {

constexpr int64_t kLargestFile = 1 << 24;
constexpr int kMostRuns = 1000;
constexpr double kMostOfAnything = 1e18;  // seconds, bytes

struct Samples {
  std::vector<double> seconds, load;
  std::optional<int64_t> memory;
};

/// Adds the lines of one run.
void add_run(const std::filesystem::path& file, Samples& samples) {
  const std::string text = read_file(file, kLargestFile);
  size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto json = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!json.is_object() || !json.contains("name") || !json["name"].is_string() ||
        !json.contains("samples") || !json["samples"].is_array())
      throw UserError(
          "{}:{}: is not a line of megalith bench train --json; remove the file and run it again",
          file.string(), line);
    const auto add = [&](std::vector<double>& to, double least, double scale) {
      for (const auto& sample : json["samples"]) {
        if (!sample.is_number() || !(sample.get<double>() >= least) ||
            sample.get<double>() > kMostOfAnything)
          throw UserError("{}:{}: samples holds {}, which is no such figure", file.string(), line,
                          sample.dump());
        to.push_back(scale * sample.get<double>());
      }
    };
    const std::string name = json["name"];
    std::vector<double> bytes;
    if (name == "train.step_seconds") add(samples.seconds, 1e-9, 1);
    if (name == "train.other_programs") add(samples.load, 0, 0.01);
    if (name == "train.memory") add(bytes, 0, 1);
    if (!bytes.empty()) samples.memory = static_cast<int64_t>(bytes.front());
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The program's own last message: launchers end with words of theirs.
std::string cause_in(const std::string& text) {
  constexpr std::string_view kOwn = "megalith: ";
  std::string cause;
  for (size_t at = text.find(kOwn); at != std::string::npos; at = text.find(kOwn, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') cause = text.substr(at, text.find('\n', at) - at);
  }
  return cause;
}

}  // namespace

TrialFolder::TrialFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_folders(folder_);
}

std::string TrialFolder::name_of(const search::LayoutPoint& p) {
  std::string name = fmt::format("tensor{}-pipeline{}-data{}-micro{}", p.tensor, p.pipeline, p.data,
                                 p.micro_batch);
  if (p.chunks > 1) name += fmt::format("-chunks{}", p.chunks);
  if (p.schedule == config::PipelineSchedule::gpipe) name += "-gpipe";
  if (p.sequence) name += "-sequence";
  name += fmt::format("-{}", p.recompute.mode);
  if (p.recompute.full_layers > 0) name += fmt::format("{}", p.recompute.full_layers);
  if (p.zero > 0) name += fmt::format("-zero{}", p.zero);
  return name + fmt::format("-{}", p.compute);
}

std::filesystem::path TrialFolder::file(const search::LayoutPoint& point,
                                        const std::string& ending) const {
  return folder_ / (name_of(point) + ending);
}

void TrialFolder::put(const config::Recipe& recipe, const search::LayoutPoint& point) const {
  const std::string yaml = config::to_yaml(recipe);
  const std::filesystem::path path = file(point, ".yaml");
  if (std::filesystem::exists(path) && std::filesystem::exists(file(point, ".1.jsonl")) &&
      read_file(path, kLargestFile) != yaml)
    throw UserError("{}: its results are of another recipe; remove {} or give another folder",
                    path.string(), folder_.string());
  write_file_durable(path, yaml);
}

void TrialFolder::forget(const search::LayoutPoint& point) const {
  for (int run = 1; run <= kMostRuns; ++run) {
    const bool had = std::filesystem::remove(file(point, fmt::format(".{}.jsonl", run)));
    const bool said = std::filesystem::remove(file(point, fmt::format(".{}.err", run)));
    if (!had && !said) break;
  }
}

std::string TrialFolder::cause(const search::LayoutPoint& point) const {
  for (int run = 1; run <= kMostRuns; ++run) {
    const auto messages = file(point, fmt::format(".{}.err", run));
    if (!std::filesystem::exists(messages)) break;
    std::string cause = cause_in(read_file(messages, kLargestFile));
    if (!cause.empty()) return cause;
  }
  return "";
}

void TrialFolder::read(search::Trial& trial) const {
  Samples samples;
  for (int run = 1; run <= kMostRuns; ++run) {
    const auto results = file(trial.point, fmt::format(".{}.jsonl", run));
    if (!std::filesystem::exists(results)) break;
    add_run(results, samples);
  }
  if (samples.seconds.empty()) {
    trial.failure = cause(trial.point);
    return;
  }
  if (samples.load.size() != samples.seconds.size())
    throw UserError(
        "{}: {} samples of steps and {} of what other programs took; remove its "
        "results and run it again",
        file(trial.point, ".yaml").string(), samples.seconds.size(), samples.load.size());
  Samples quiet;
  for (size_t i = 0; i < samples.load.size(); ++i) {
    if (samples.load[i] >= kQuiet) continue;
    quiet.seconds.push_back(samples.seconds[i]);
    quiet.load.push_back(samples.load[i]);
  }
  if (!quiet.seconds.empty()) {
    samples.seconds = quiet.seconds;
    samples.load = quiet.load;
  }
  trial.other_load = median(samples.load);
  trial.seconds = median(samples.seconds);
  trial.memory_bytes = samples.memory;
}

}  // namespace megalith::apps
