// SPDX-License-Identifier: Apache-2.0
// Where a run's wall time went, over all its starts. At every moment exactly one bucket runs, so
// the buckets sum to the time since the run first began; what happened between two starts is worked
// out when the second begins. The split follows Google's ML goodput: only steps that are part of
// the final state are useful.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "report/metrics.h"

namespace megalith::train {

enum class Bucket : uint8_t {
  start,       // from the process to the first step, without what follows
  load,        // finding, verifying and reading checkpoints
  data_wait,   // standing still for the next batch
  steps,       // steps that the state still holds
  lost_steps,  // steps that were done and are not part of the state: redone, or rewound
  skipped,     // steps that changed nothing, and looking for the cause
  checkpoint,  // standing still for a save
  validation,
  samples,  // writing text
  logging,  // metrics, events, run.json, the console
  idle      // no process, or one that left no word of what it did
};
inline constexpr int kNumBuckets = 11;
std::string_view name_of(Bucket bucket);

class Goodput {
 public:
  /// Begins in `start`, which also gets the time since this process began.
  Goodput();
  /// Seconds on the monotonic clock and since 1970, and the process's age: for tests.
  struct Clocks {
    double monotonic = 0;
    double wall = 0;
    double age = 0;
  };
  explicit Goodput(const Clocks& now);

  /// Ends the running bucket and begins another; gives the one that ran.
  Bucket enter(Bucket bucket);
  Bucket enter(Bucket bucket, double monotonic);

  /// Goes on from what `write` recorded in an earlier start. The steps above the checkpoint that
  /// the run resumes from took `lost_recorded` seconds up to the record's step and `lost_after`
  /// after it. Nothing happens when `json` holds no accounts.
  void resume(const nlohmann::ordered_json& json, double lost_recorded, double lost_after);
  /// Step of the record in `json`, -1 without one.
  static int64_t recorded_step(const nlohmann::ordered_json& json);
  /// Steps that took `seconds` are not part of the state any more.
  void lose(double seconds);

  double seconds(Bucket bucket) const { return seconds_[static_cast<size_t>(bucket)]; }
  /// {"step", "since", "until", "wall_seconds", "useful", "buckets": {name: seconds}}; `since` and
  /// `until` are of the wall clock, wall_seconds their difference.
  nlohmann::ordered_json to_json(int64_t step);
  nlohmann::ordered_json to_json(int64_t step, double monotonic);

 private:
  double& of(Bucket bucket) { return seconds_[static_cast<size_t>(bucket)]; }
  std::array<double, kNumBuckets> seconds_{};
  Bucket running_ = Bucket::start;
  double entered_ = 0;  // monotonic
  double began_ = 0;    // of this process, monotonic
  double began_wall_ = 0;
  double since_ = 0;  // of the run, by the wall clock
};

/// Runs a bucket while it lives, then the one before.
class InBucket {
 public:
  InBucket(Goodput& accounts, Bucket bucket)
      : goodput_(accounts), before_(accounts.enter(bucket)) {}
  ~InBucket() { goodput_.enter(before_); }
  InBucket(const InBucket&) = delete;
  InBucket& operator=(const InBucket&) = delete;

 private:
  Goodput& goodput_;
  Bucket before_;
};

/// What a run's metrics.jsonl says to a start that goes on from a checkpoint.
struct LoggedSteps {
  std::optional<report::StepMetrics> last;  // that the checkpoint's position keeps
  double recorded_seconds = 0;              // of the steps above its own, up to `recorded`
  double later_seconds = 0;                 // of those above both
};
/// In one pass, for a checkpoint of step `step` whose position keeps the lines of steps up to
/// `kept`. IntegrityError when one of these is damaged; behind them a power cut may have left
/// anything, and what can be read up to there counts.
LoggedSteps logged_steps(const std::filesystem::path& run, int64_t step, int64_t kept,
                         int64_t recorded);

}  // namespace megalith::train
