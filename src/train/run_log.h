// SPDX-License-Identifier: Apache-2.0
// The growing files of a run folder: metrics.jsonl, the TensorBoard events, samples.jsonl. Their
// lengths go into each checkpoint; a resume cuts all three back to the checkpoint's.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "report/events.h"
#include "report/metrics.h"
#include "report/samples.h"

namespace megalith::train {

/// Bytes of each file at a checkpoint.
struct LogPositions {
  int64_t metrics = 0;
  int64_t samples = 0;
  std::string events_file;  // name in the run folder
  int64_t events = 0;
};
nlohmann::json to_json(const LogPositions& positions);
/// IntegrityError if something is missing.
LogPositions log_positions_from(const nlohmann::json& json);

class RunLog {
 public:
  /// Goes on at `positions`; what stands behind them goes.
  RunLog(const std::filesystem::path& folder, const LogPositions& positions);

  /// One line and one event per scalar; in the file when it returns.
  void step(const report::StepMetrics& metrics);
  void sample(const report::TextSample& sample);
  /// Makes everything durable and says how long the files are.
  LogPositions sync();

 private:
  report::MetricsLog metrics_;
  report::SampleLog samples_;
  report::EventWriter events_;
};

}  // namespace megalith::train
