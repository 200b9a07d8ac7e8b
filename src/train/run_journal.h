// SPDX-License-Identifier: Apache-2.0
// What rank 0 writes down of a run: run.json, metrics, events and samples, the line to watch, and
// where the wall time went. On other ranks there are clocks alone.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/reader.h"
#include "report/progress.h"
#include "train/goodput.h"
#include "train/position.h"
#include "train/run_log.h"
#include "train/run_record.h"

namespace megalith::train {

class RunJournal {
 public:
  /// Reads run.json of an earlier start; see RunRecord for what it throws.
  RunJournal(const std::filesystem::path& folder, bool writes);

  Goodput& goodput() { return goodput_; }
  /// run.json as it will be written.
  nlohmann::ordered_json& record() { return record_.json(); }

  /// Where the logs begin of a start that found no checkpoint (run_folder.h), or none at all where
  /// nothing is written.
  LogPositions begin();
  /// Of a start that goes on from this checkpoint.
  void resume(const checkpoint::Reader& reader, const LogPositions& logs);
  /// Opens the logs at `position` and takes over the time of earlier starts. `owes_line`: the
  /// position's step has no line in them yet.
  void open(const Position& position, bool owes_line);
  /// The same after the run went back to `position`, having lost `lost_seconds` beside what the
  /// logs say.
  void reopen(const Position& position, bool owes_line, double lost_seconds);
  void watch(const report::Progress::Options& options) {
    if (writes_) progress_.emplace(options);
  }

  /// The step's line. It ends the step: from here on the step is logged.
  void step(const report::StepMetrics& metrics, double elapsed_seconds);
  void sample(const report::TextSample& sample);
  /// Makes the logs durable and says how long they are.
  LogPositions sync() { return log_->sync(); }
  void write_record(const std::string& status, const Position& position);
  /// The last step with a line; step 0: none.
  const report::StepMetrics& last() const { return last_; }

 private:
  LoggedSteps logged(const Position& position, bool owes_line, int64_t recorded) const;
  std::filesystem::path folder_;
  bool writes_;
  RunRecord record_;
  Goodput goodput_;
  std::unique_ptr<RunLog> log_;
  std::optional<report::Progress> progress_;
  report::StepMetrics last_;
};

}  // namespace megalith::train
