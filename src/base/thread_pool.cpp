// SPDX-License-Identifier: Apache-2.0
// One shared word, the generation, wakes the workers; one counter says how many parts are not done.
// Both are spun on for some tens of microseconds (a kernel of a small model follows the last one
// faster than a futex wakes), then slept on. A part belongs to a worker, but a caller that is done
// with its own takes those whose worker has not begun: on a machine that also does other work, a
// worker may be off its core for milliseconds. Who computes a part changes nothing in it. All data
// moves under the release/acquire pairs of these words, so ThreadSanitizer understands it.
#include "base/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/integer.h"

namespace megalith {
namespace {

// About 50 us of `pause` on current server cores.
constexpr int kSpins = 2000;

/// Returns the first value of `word` that differs from `old`.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    const uint32_t value = word.load(std::memory_order_acquire);
    if (value != old) return value;
    _mm_pause();
  }
  uint32_t value = word.load(std::memory_order_acquire);
  while (value == old) {
    word.wait(old, std::memory_order_acquire);
    value = word.load(std::memory_order_acquire);
  }
  return value;
}

}  // namespace

Range static_part(int64_t n, int64_t grain, int index, int count) {
  MEGA_CHECK(n >= 0 && grain >= 1 && count >= 1 && index >= 0 && index < count,
             "n {} grain {} index {} count {}", n, grain, index, count);
  const int64_t grains = n / grain + (n % grain != 0 ? 1 : 0);
  const int64_t each = grains / count, rest = grains % count;
  const int64_t begin = each * index + std::min<int64_t>(index, rest);
  const int64_t end = begin + each + (index < rest ? 1 : 0);
  // The last grain may be partial; begin * grain never exceeds n unless the part is empty.
  return {std::min(begin * grain, n), end == grains ? n : end * grain};
}

struct ThreadPool::Shared {
  /// The generation in which a part was last begun: by one more each time.
  struct alignas(64) Claim {
    std::atomic<uint32_t> generation{0};
  };
  /// Where the next piece of a part begins.
  struct alignas(64) Piece {
    std::atomic<int64_t> begin{0};
  };
  // On lines of their own: the waiting sides poll different words.
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<uint32_t> pending{0};
  alignas(64) std::atomic<bool> busy{false};
  std::atomic<bool> stop{false};
  const FunctionRef<void(int)>* body = nullptr;
  int spins = 0;
  std::vector<Claim> claims;
  std::vector<Piece> pieces;
  std::vector<std::exception_ptr> errors;
  std::vector<std::thread> threads;

  explicit Shared(int num_threads)
      : claims(static_cast<size_t>(num_threads)),
        pieces(static_cast<size_t>(num_threads)),
        errors(static_cast<size_t>(num_threads)) {}

  void call(int part) {
    try {
      (*body)(part);
    } catch (...) {
      errors[static_cast<size_t>(part)] = std::current_exception();
    }
  }

  /// Computes a part of generation `now` unless somebody has begun it.
  void call_unclaimed(int part, uint32_t now) {
    uint32_t before = now - 1;
    if (!claims[static_cast<size_t>(part)].generation.compare_exchange_strong(
            before, now, std::memory_order_acq_rel))
      return;
    call(part);
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
  }

  void work(int thread) {
    uint32_t seen = 0;
    while (true) {
      seen = wait_for_change(generation, seen, spins);
      if (stop.load(std::memory_order_acquire)) return;
      call_unclaimed(thread, seen);
    }
  }

  uint32_t wake() {
    const uint32_t now = generation.fetch_add(1, std::memory_order_release) + 1;
    generation.notify_all();
    return now;
  }

  void join() {
    stop.store(true, std::memory_order_release);
    wake();
    for (std::thread& thread : threads) thread.join();
  }
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  MEGA_CHECK(num_threads >= 1, "{} threads", num_threads);
  shared_ = std::make_unique<Shared>(num_threads);
  // With more threads than cores a spinning one keeps a working one off its core.
  shared_->spins = num_threads <= available_cores() ? kSpins : 0;
  try {
    for (int i = 1; i < num_threads; ++i)
      shared_->threads.emplace_back([shared = shared_.get(), i] { shared->work(i); });
  } catch (const std::system_error& error) {
    const size_t started = shared_->threads.size();
    shared_->join();
    throw SystemError("cannot start thread {} of {}: {}; lower run.threads", started + 2,
                      num_threads, error.what());
  }
}

ThreadPool::~ThreadPool() { shared_->join(); }

void ThreadPool::run(FunctionRef<void(int)> body) {
  MEGA_CHECK(!shared_->busy.exchange(true, std::memory_order_acquire),
             "run() called while a run() is in progress");
  shared_->body = &body;
  uint32_t now = 0;
  if (num_threads_ > 1) {
    shared_->pending.store(static_cast<uint32_t>(num_threads_ - 1), std::memory_order_relaxed);
    now = shared_->wake();
  }
  shared_->call(0);
  for (int part = 1; part < num_threads_; ++part) shared_->call_unclaimed(part, now);
  uint32_t left = shared_->pending.load(std::memory_order_acquire);
  while (left != 0) left = wait_for_change(shared_->pending, left, shared_->spins);
  shared_->body = nullptr;
  std::exception_ptr first;
  for (std::exception_ptr& error : shared_->errors) {
    if (error && !first) first = error;
    error = nullptr;
  }
  shared_->busy.store(false, std::memory_order_release);
  if (first) std::rethrow_exception(first);
}

void ThreadPool::for_range(int64_t n, int64_t grain, FunctionRef<void(Range, int)> body) {
  run([&](int thread) {
    const Range range = static_part(n, grain, thread, num_threads_);
    if (!range.empty()) body(range, thread);
  });
}

void ThreadPool::for_pieces(int64_t n, int64_t grain, FunctionRef<void(Range, int)> body) {
  const auto part_of = [&](int part) { return static_part(n, grain, part, num_threads_); };
  // One call for three quarters: long streams of memory are read faster than short ones.
  const auto rest_of = [&](int part) {
    const Range whole = part_of(part);
    const int64_t first = num_threads_ == 1 ? whole.size() : whole.size() * 3 / 4 / grain * grain;
    return Range{whole.begin + first, whole.end};
  };
  for (int part = 0; part < num_threads_; ++part)
    shared_->pieces[static_cast<size_t>(part)].begin.store(rest_of(part).begin,
                                                           std::memory_order_relaxed);
  run([&](int thread) {
    const Range first{part_of(thread).begin, rest_of(thread).begin};
    if (!first.empty()) body(first, thread);
    for (int i = 0; i < num_threads_; ++i) {
      const int part = (thread + i) % num_threads_;
      const int64_t end = part_of(part).end;
      std::atomic<int64_t>& next = shared_->pieces[static_cast<size_t>(part)].begin;
      const auto take = [&] { return next.fetch_add(grain, std::memory_order_relaxed); };
      for (int64_t begin = take(); begin < end; begin = take())
        body({begin, std::min(begin + grain, end)}, thread);
    }
  });
}

}  // namespace megalith
