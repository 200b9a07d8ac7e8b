// SPDX-License-Identifier: Apache-2.0
// The threads of one rank. Kernels partition their work statically over them, so that which thread
// does what is a function of shape and thread count alone (and no result depends on either).
// Workers spin for a short while, then sleep on a futex (std::atomic::wait).
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace megalith {

/// Half-open range of work items.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
};

/// The part of [0, n) that belongs to `index` of `count` when cut into nearly equal contiguous
/// parts, each a multiple of `grain` except the last.
Range static_part(int64_t n, int64_t grain, int index, int count);

class ThreadPool {
 public:
  /// `num_threads` >= 1 counts the calling thread, which takes part as thread 0.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  /// Calls body(thread) once on every thread and returns when all have returned. An exception
  /// thrown by any of them is rethrown here (the lowest thread's, if several). Not reentrant: body
  /// must not call run(). Only the owning thread may call it.
  void run(FunctionRef<void(int thread)> body);

  /// run() with the static part of [0, n) of each thread; threads with nothing to do are not
  /// called.
  void for_range(int64_t n, int64_t grain, FunctionRef<void(Range, int thread)> body);

  /// for_range() for work bound by memory bandwidth, which cores do not share equally at every
  /// moment: a thread does most of its part in one call, then the rest of it grain by grain, then
  /// grains of others. Every index is visited once; by which thread, and in how many calls, is
  /// unspecified.
  void for_pieces(int64_t n, int64_t grain, FunctionRef<void(Range, int thread)> body);

 private:
  struct Shared;
  int num_threads_;
  std::unique_ptr<Shared> shared_;
};

/// The number of cores this process may use (affinity mask and cgroup quota respected), at least 1.
int available_cores();

}  // namespace megalith
