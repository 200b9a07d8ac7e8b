// SPDX-License-Identifier: Apache-2.0
#include "data/prefetch.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace megalith::data {

Prefetcher::Prefetcher(Maker maker, int depth)
    : maker_(std::move(maker)), depth_(static_cast<size_t>(depth)) {
  MEGA_CHECK_GE(depth, 1);
  thread_ = std::thread([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  taken_.notify_one();
  thread_.join();
}

void Prefetcher::run() {
  while (true) {
    HostBatch batch;
    {
      std::unique_lock lock(mutex_);
      taken_.wait(lock, [this] { return cancelled_ || ready_.size() < depth_; });
      if (cancelled_) return;
      if (!spare_.empty()) {
        batch = std::move(spare_.front());
        spare_.pop_front();
      }
    }
    bool made = false;
    std::exception_ptr error;
    try {
      made = maker_(batch);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      ended_ = !made;
      if (made) ready_.push_back(std::move(batch));
    }
    made_.notify_one();
    if (!made) return;
  }
}

std::optional<HostBatch> Prefetcher::next() {
  std::unique_lock lock(mutex_);
  if (ready_.empty() && !ended_) {
    const double start = monotonic_seconds();
    made_.wait(lock, [this] { return !ready_.empty() || ended_; });
    wait_seconds_ += monotonic_seconds() - start;
  }
  if (ready_.empty()) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  HostBatch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  taken_.notify_one();
  return batch;
}

void Prefetcher::recycle(HostBatch&& batch) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() <= depth_) spare_.push_back(std::move(batch));
}

}  // namespace megalith::data
