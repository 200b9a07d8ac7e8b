// SPDX-License-Identifier: Apache-2.0
// A thread that makes the coming batches while the current one is being used. Batches arrive in
// order; at most `depth` wait. An exception of the maker is rethrown to the consumer at its place
// in the order. The time that the consumer waits is measured: it is what data loading costs the
// run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "data/host_batch.h"

namespace megalith::data {

class Prefetcher {
 public:
  /// Fills the given batch, whose memory may be recycled, with the next one; false if there is
  /// none. Called on the prefetching thread only.
  using Maker = std::function<bool(HostBatch&)>;

  Prefetcher(Maker maker, int depth);
  /// Cancels: waits for the maker's current call and drops what was made.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, or nothing after the last. Once the maker has thrown, every call throws that.
  std::optional<HostBatch> next();
  /// Returns a batch's memory for reuse (optional).
  void recycle(HostBatch&& batch);
  /// Seconds that next() has waited in all. Call on the consumer's thread.
  double wait_seconds() const { return wait_seconds_; }

 private:
  void run();

  Maker maker_;
  size_t depth_;
  double wait_seconds_ = 0;
  std::mutex mutex_;
  std::condition_variable made_;
  std::condition_variable taken_;
  std::deque<HostBatch> ready_;
  std::deque<HostBatch> spare_;
  std::exception_ptr error_;
  bool ended_ = false;
  bool cancelled_ = false;
  std::thread thread_;  // last: it uses all above
};

}  // namespace megalith::data
