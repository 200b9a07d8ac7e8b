// SPDX-License-Identifier: Apache-2.0
#include "train/run_journal.h"

#include "base/log.h"
#include "train/run_folder.h"

namespace megalith::train {

RunJournal::RunJournal(const std::filesystem::path& folder, bool writes)
    : folder_(folder), writes_(writes), record_(folder) {}

LogPositions RunJournal::begin() { return writes_ ? begin_logs(folder_, record_) : LogPositions{}; }

void RunJournal::resume(const checkpoint::Reader& reader, const LogPositions& logs) {
  if (!writes_) return;
  note_checkpoint(record_, reader, logs);
  log::info("resuming from {}", reader.folder().string());
}

LoggedSteps RunJournal::logged(const Position& position, bool owes_line, int64_t recorded) const {
  return logged_steps(folder_, position.step, position.step - (owes_line ? 1 : 0), recorded);
}

void RunJournal::open(const Position& position, bool owes_line) {
  if (!writes_) return;
  if (record_.damage()) {
    log::warning("{}: {}; it begins anew, and the accounts of earlier starts with it",
                 (folder_ / "run.json").string(), *record_.damage());
  }
  const LoggedSteps steps = logged(position, owes_line, Goodput::recorded_step(record_.json()));
  goodput_.resume(record_.json(), steps.recorded_seconds, steps.later_seconds);
  log_ = std::make_unique<RunLog>(folder_, position.logs);
  last_ = steps.last.value_or(last_);
}

void RunJournal::reopen(const Position& position, bool owes_line, double lost_seconds) {
  if (!writes_) return;
  const LoggedSteps steps = logged(position, owes_line, INT64_MAX);
  goodput_.lose(steps.recorded_seconds + lost_seconds);
  log_ = std::make_unique<RunLog>(folder_, position.logs);
  last_ = steps.last.value_or(report::StepMetrics{});
  log::warning("went back to step {}; the next sample is {}", position.step, position.samples);
}

void RunJournal::step(const report::StepMetrics& metrics, double elapsed_seconds) {
  if (log_ != nullptr) log_->step(metrics);
  if (progress_) progress_->step(metrics, elapsed_seconds);
  last_ = metrics;
}

void RunJournal::sample(const report::TextSample& sample) {
  if (log_ != nullptr) log_->sample(sample);
  if (progress_) progress_->note(fmt::format("  {}{}", sample.prompt, sample.text));
}

void RunJournal::write_record(const std::string& status, const Position& position) {
  if (!writes_) return;
  nlohmann::ordered_json& json = record();
  json["status"] = status;
  json["seconds"] = position.elapsed_seconds;
  json["accounts"] = goodput_.to_json(position.step);
  record_.write();
}

}  // namespace megalith::train
