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
#include <string_view>

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

class Accounts {
 public:
  /// Begins in `start`, which also gets the time since this process began.
  Accounts();
  /// Seconds on the monotonic clock and since 1970, and the process's age: for tests.
  struct Clocks {
    double monotonic = 0;
    double wall = 0;
    double age = 0;
  };
  explicit Accounts(const Clocks& now);

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
  InBucket(Accounts& accounts, Bucket bucket)
      : accounts_(accounts), before_(accounts.enter(bucket)) {}
  ~InBucket() { accounts_.enter(before_); }
  InBucket(const InBucket&) = delete;
  InBucket& operator=(const InBucket&) = delete;

 private:
  Accounts& accounts_;
  Bucket before_;
};

/// Seconds of the steps in (above, up_to] that the run's metrics.jsonl holds, as far as it can be
/// read: a power cut may have left anything behind the checkpoint's position, where it will be cut
/// off.
double logged_seconds(const std::filesystem::path& run, int64_t above, int64_t up_to);

}  // namespace megalith::train
