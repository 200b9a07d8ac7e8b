// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/log.h"
#include "checkpoint/step_folders.h"
#include "report/metrics.h"
#include "train/position.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEventsFile = "events_file";
constexpr const char* kCheckpoints = "checkpoints";

bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

fs::path free_place(const fs::path& run) {
  for (int n = 1;; ++n) {
    fs::path place = run / fmt::format("old-{}", n);
    if (!is_there(place)) return place;
  }
}

std::string what_to_do(const fs::path& run) {
  return fmt::format(
      "put it back or choose another run.out; --restart begins anew and keeps what is here in {}",
      free_place(run).string());
}

/// The logs that hold whole lines.
std::vector<std::string> logs_with_lines(const fs::path& run) {
  std::vector<std::string> logs;
  for (const char* name : {"metrics.jsonl", "samples.jsonl"})
    if (report::end_of_whole_lines(run / name) > 0) logs.emplace_back(name);
  return logs;
}

/// "up to step 8", as far as the lines are ours.
std::string last_step(const fs::path& run) {
  try {
    const auto last = report::last_metrics(run / "metrics.jsonl");
    if (last) return fmt::format(" up to step {}", last->step);
  } catch (const Error&) {
    // Lines of another program.
  }
  return "";
}

std::string recorded_events(const nlohmann::ordered_json& json) {
  const auto name = json.find(kEventsFile);
  if (name == json.end() || !name->is_string()) return "";
  const auto text = name->get<std::string>();
  return report::is_event_file(text) ? text : "";
}

/// The event files of a run, as its record and its checkpoints say.
std::vector<std::string> events_of(const fs::path& run) {
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  };
  add(recorded_events(RunRecord(run).json()));
  for (const auto& [step, folder] : checkpoint::step_folders(run / kCheckpoints)) {
    try {
      add(position_from(checkpoint::open_own_step(folder).state()).logs.events_file);
    } catch (const Error&) {
      // A damaged one says nothing; it goes aside all the same.
    }
  }
  return names;
}

/// The step of the last complete checkpoint; -1 when the record does not say.
int64_t recorded_checkpoint(const nlohmann::ordered_json& json) {
  const auto saved = json.find("checkpoint");
  if (saved == json.end() || !saved->is_object() || !saved->contains("step")) return -1;
  return whole_number_in(saved->at("step")).value_or(-1);
}

/// Nothing would go that anybody could miss.
void require_nothing_lost(const fs::path& run, const nlohmann::ordered_json& json) {
  if (json.contains("state_sha256")) {  // written with each checkpoint
    const int64_t step = recorded_checkpoint(json);
    throw IntegrityError("{}: run.json records a checkpoint{}, and {} holds none; {}", run.string(),
                         step >= 0 ? fmt::format(" of step {}", step) : "", kCheckpoints,
                         what_to_do(run));
  }
  const std::vector<std::string> logs = logs_with_lines(run);
  if (logs.empty()) return;
  if (!json.contains("status")) {
    throw IntegrityError(
        "{}: {} holds lines{}, and there is neither a checkpoint nor a record of their run; {}",
        run.string(), logs[0], last_step(run), what_to_do(run));
  }
  log::warning(
      "{}: an earlier start was ended before its first checkpoint was complete; its {} begins anew",
      run.string(), logs[0]);
}

/// Runs write files alone there; whatever else has such a name is not theirs.
bool is_leftover(const fs::directory_entry& entry) {
  return entry.is_regular_file() && is_temporary_name(entry.path().filename().string());
}

}  // namespace

void note_checkpoint(RunRecord& record, const checkpoint::Reader& reader,
                     const LogPositions& logs) {
  auto& json = record.json();
  json["state_sha256"] = reader.state_sha256();
  json[kEventsFile] = logs.events_file;
  if (recorded_checkpoint(json) != reader.step()) json["checkpoint"] = {{"step", reader.step()}};
}

LogPositions begin_logs(const fs::path& run, RunRecord& record) {
  require_nothing_lost(run, record.json());
  LogPositions positions;
  positions.events_file = recorded_events(record.json());
  if (!positions.events_file.empty()) return positions;
  positions.events_file = report::new_event_file(run);
  record.json()[kEventsFile] = positions.events_file;
  record.write();
  return positions;
}

void set_aside(const fs::path& run) {
  const auto exists = [&](const std::string& name) { return is_there(run / name); };
  // run.json last: until then it tells the next start that something is missing.
  const std::vector<std::string> a_run{kCheckpoints, "metrics.jsonl", "samples.jsonl", "run.json"};
  if (std::ranges::none_of(a_run, exists)) return;  // a recipe.yaml alone is a person's
  std::vector<std::string> names = events_of(run);
  for (const char* name : {"recipe.yaml", "report.html", "profile.json", "adapter", kFirstValues})
    names.emplace_back(name);
  std::ranges::copy(a_run, std::back_inserter(names));
  const fs::path place = free_place(run);
  fs::create_directory(place);
  for (const std::string& name : names)
    if (exists(name)) fs::rename(run / name, place / name);
  sync_folder(place);
  sync_folder(run);
  log::info("--restart: the run that was in {} is kept in {}", run.string(), place.string());
}

void remove_leftovers(const fs::path& run) {
  for (const auto& entry : fs::directory_iterator(run))
    if (is_leftover(entry)) fs::remove(entry.path());
}

bool has_leftovers(const fs::path& run) {
  return std::ranges::any_of(fs::directory_iterator(run), is_leftover);
}

}  // namespace megalith::train
