// SPDX-License-Identifier: Apache-2.0
#include "train/goodput.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json_number.h"
#include "base/log.h"

namespace megalith::train {
namespace {

constexpr std::array<std::string_view, kNumBuckets> kNames{
    "start",      "load",       "data_wait", "steps",   "lost_steps", "skipped",
    "checkpoint", "validation", "samples",   "logging", "idle"};

/// Seconds since this process began: its start in /proc/self/stat counts from the machine's.
double process_age() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  size_t at = text.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  timespec now{};
  if (at == std::string::npos || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double start =
      std::strtod(text.c_str() + at, nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(
      0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - start);
}

/// All clocks at one moment: when this process was kept waiting between them, they are read again.
Goodput::Clocks read_clocks() {
  constexpr double kMoment = 0.01;
  constexpr int kTries = 100;  // a machine that never lets it read them in time gets the last
  Goodput::Clocks now;
  for (int i = 0; i < kTries; ++i) {
    now = {monotonic_seconds(), wall_seconds(), process_age()};
    if (monotonic_seconds() - now.monotonic < kMoment) break;
  }
  return now;
}

/// What no run and no clock gets to; sums of such numbers are exact enough and do not overflow.
constexpr double kMostSeconds = 1e11;

/// The seconds under `key`: from a file, so anything may stand there.
double seconds_in(const nlohmann::ordered_json& object, std::string_view key) {
  const double seconds = object.at(std::string(key)).get<double>();
  if (!(seconds >= 0 && seconds <= kMostSeconds))
    throw IntegrityError("'{}' is {}, which is no time", key, seconds);
  return seconds;
}

}  // namespace

std::string_view name_of(Bucket bucket) { return kNames[static_cast<size_t>(bucket)]; }

Goodput::Goodput() : Goodput(read_clocks()) {}

Goodput::Goodput(const Clocks& now)
    : entered_(now.monotonic - now.age),
      began_(entered_),
      began_wall_(now.wall - now.age),
      since_(began_wall_) {}

Bucket Goodput::enter(Bucket bucket) { return enter(bucket, monotonic_seconds()); }

Bucket Goodput::enter(Bucket bucket, double monotonic) {
  of(running_) += monotonic - entered_;
  entered_ = monotonic;
  return std::exchange(running_, bucket);
}

int64_t Goodput::recorded_step(const nlohmann::ordered_json& json) {
  const auto found = json.find("accounts");
  if (found == json.end() || !found->is_object()) return -1;
  const auto step = found->find("step");
  return step != found->end() ? whole_number_in(*step).value_or(-1) : -1;
}

void Goodput::resume(const nlohmann::ordered_json& json, double lost_recorded, double lost_after) {
  if (recorded_step(json) < 0) return;
  std::array<double, kNumBuckets> earlier{};
  double since = 0, until = 0;
  try {
    const auto& accounts = json.at("accounts");
    const auto& buckets = accounts.at("buckets");
    if (!buckets.is_object()) throw IntegrityError("'buckets' is no object");
    for (size_t i = 0; i < earlier.size(); ++i) {
      if (buckets.contains(std::string(kNames[i]))) earlier[i] = seconds_in(buckets, kNames[i]);
    }
    since = seconds_in(accounts, "since");
    until = seconds_in(accounts, "until");
  } catch (const std::exception& error) {  // of the library, or ours
    log::warning("run.json: its accounts cannot be read ({}); they begin anew", error.what());
    return;
  }
  for (size_t i = 0; i < earlier.size(); ++i) seconds_[i] += earlier[i];
  // A clock that was set back leaves no gap to explain, and the run's beginning moves with it.
  const double gap = std::max(0.0, began_wall_ - until);
  since_ = since - std::max(0.0, until - began_wall_);
  const double lost = std::min(lost_after, gap);
  of(Bucket::lost_steps) += lost;
  of(Bucket::idle) += gap - lost;
  lose(lost_recorded);
}

void Goodput::lose(double seconds) {
  const double moved = std::min(seconds, of(Bucket::steps));
  of(Bucket::steps) -= moved;
  of(Bucket::lost_steps) += moved;
}

nlohmann::ordered_json Goodput::to_json(int64_t step) { return to_json(step, monotonic_seconds()); }

nlohmann::ordered_json Goodput::to_json(int64_t step, double monotonic) {
  enter(running_, monotonic);
  // This process's time by the monotonic clock: the wall clock may be set while it runs.
  const double until = began_wall_ + monotonic - began_;
  nlohmann::ordered_json json{{"step", step},
                              {"since", since_},
                              {"until", until},
                              {"wall_seconds", until - since_},
                              {"useful", of(Bucket::steps) / std::max(1e-9, until - since_)}};
  for (int i = 0; i < kNumBuckets; ++i)
    json["buckets"][std::string(kNames[static_cast<size_t>(i)])] = seconds_[static_cast<size_t>(i)];
  return json;
}

LoggedSteps logged_steps(const std::filesystem::path& run, int64_t step, int64_t kept,
                         int64_t recorded) {
  LoggedSteps logged;
  const std::filesystem::path path = run / "metrics.jsonl";
  if (!std::filesystem::exists(path)) return logged;
  int64_t read = 0;
  try {
    report::visit_metrics(path, [&](const report::StepMetrics& line) {
      read = line.step;
      if (line.step <= kept) logged.last = line;
      if (line.step <= step || !std::isfinite(line.step_seconds)) return;
      (line.step <= recorded ? logged.recorded_seconds : logged.later_seconds) += line.step_seconds;
    });
  } catch (const IntegrityError&) {
    if (read < kept) throw;
  }
  return logged;
}

}  // namespace megalith::train
