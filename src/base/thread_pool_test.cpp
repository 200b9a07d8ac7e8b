// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"

namespace megalith {
namespace {

TEST(ThreadPool, StaticPartsCoverEverythingOnceInOrder) {
  for (int64_t n : {0, 1, 7, 16, 97, 1000})
    for (int64_t grain : {1, 4, 16, 2000})
      for (int count : {1, 2, 3, 8}) {
        int64_t next = 0, smallest = n, largest = 0;
        for (int i = 0; i < count; ++i) {
          const Range part = static_part(n, grain, i, count);
          if (part.empty()) {
            EXPECT_EQ(part.size(), 0);
            continue;
          }
          EXPECT_EQ(part.begin, next);
          EXPECT_EQ(part.begin % grain, 0);
          EXPECT_TRUE(part.end == n || part.end % grain == 0);
          next = part.end;
          smallest = std::min(smallest, part.size());
          largest = std::max(largest, part.size());
        }
        EXPECT_EQ(next, n);
        if (n >= grain * count) {
          EXPECT_LE(largest - smallest, 2 * grain);
        }
      }
}

TEST(ThreadPool, StaticPartSurvivesHugeSizes) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(static_part(huge, 1, 2, 3).end, huge);
  EXPECT_EQ(static_part(huge, 64, 7, 8).end, huge);
}

TEST(ThreadPool, EveryThreadIsCalledOnceInEachRun) {
  for (int num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    std::vector<int64_t> calls(static_cast<size_t>(num_threads));  // one writer each: TSan watches
    std::vector<std::thread::id> ids(static_cast<size_t>(num_threads));
    for (int i = 0; i < 500; ++i)
      pool.run([&](int thread) {
        ++calls[static_cast<size_t>(thread)];
        ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
      });
    for (int64_t count : calls) EXPECT_EQ(count, 500);
    EXPECT_EQ(ids[0], std::this_thread::get_id());
  }
}

TEST(ThreadPool, ResultsOfOneRunAreVisibleToEveryThreadOfTheNext) {
  ThreadPool pool(3);
  std::vector<int64_t> values(3, 1), next(3);
  for (int round = 0; round < 200; ++round) {
    pool.run([&](int thread) {
      next[static_cast<size_t>(thread)] =
          (values[0] + 2 * values[1] + 3 * values[2] + thread) % 1000003;
    });
    std::swap(values, next);
  }
  std::vector<int64_t> expected(3, 1);
  for (int round = 0; round < 200; ++round) {
    const int64_t sum = expected[0] + 2 * expected[1] + 3 * expected[2];
    for (int64_t thread = 0; thread < 3; ++thread)
      expected[static_cast<size_t>(thread)] = (sum + thread) % 1000003;
  }
  EXPECT_EQ(values, expected);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than the spin
    pool.run([&](int thread) {
      if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++calls;
    });
  }
  EXPECT_EQ(calls, 6);
}

std::atomic<bool> g_held{false}, g_release{false};
/// Keeps the thread that gets the signal from its work.
void hold(int) {
  g_held = true;
  while (!g_release) {
  }
}

TEST(ThreadPool, ThePartOfAThreadThatDoesNotComeIsDoneByTheCaller) {
  ThreadPool pool(2);
  std::array<pthread_t, 2> threads{};
  std::atomic<bool> has_come{false};
  pool.run([&](int thread) {
    threads[static_cast<size_t>(thread)] = pthread_self();
    if (thread == 1) has_come = true;
    while (!has_come) std::this_thread::yield();  // so that part 1 is the worker's own
  });
  ASSERT_FALSE(pthread_equal(threads[0], threads[1]));
  g_held = g_release = false;
  struct sigaction action {};
  action.sa_handler = hold;
  struct sigaction old {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
  ASSERT_EQ(pthread_kill(threads[1], SIGUSR1), 0);
  while (!g_held) std::this_thread::yield();
  std::array<int, 2> calls{};
  for (int i = 0; i < 10; ++i) pool.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
  EXPECT_EQ(calls, (std::array<int, 2>{10, 10}));
  g_release = true;
  for (int i = 0; i < 1000; ++i)
    pool.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
  EXPECT_EQ(calls, (std::array<int, 2>{1010, 1010}));
  sigaction(SIGUSR1, &old, nullptr);
}

TEST(ThreadPool, RangesAreSharedOutWithoutEmptyCalls) {
  ThreadPool pool(4);
  std::vector<int> touched(10);
  std::atomic<int> calls{0};
  pool.for_range(10, 4, [&](Range range, int) {
    ++calls;
    for (int64_t i = range.begin; i < range.end; ++i) ++touched[static_cast<size_t>(i)];
  });
  EXPECT_EQ(touched, std::vector<int>(10, 1));
  EXPECT_EQ(calls, 3);
}

TEST(ThreadPool, PiecesVisitEveryIndexOnce) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (const int64_t n : {0, 1, 3, 10, 64, 1001}) {
      for (const int64_t grain : {1, 4, 7}) {
        std::vector<std::atomic<int>> touched(static_cast<size_t>(n));
        pool.for_pieces(n, grain, [&](Range range, int thread) {
          EXPECT_EQ(range.begin % grain, 0);
          EXPECT_FALSE(range.empty());
          EXPECT_TRUE(thread >= 0 && thread < threads);
          for (int64_t i = range.begin; i < range.end; ++i) ++touched[static_cast<size_t>(i)];
        });
        for (const auto& times : touched) EXPECT_EQ(times, 1);
      }
    }
  }
}

TEST(ThreadPool, PiecesOfALateThreadAreTakenByOthers) {
  ThreadPool pool(2);
  constexpr int64_t kIndices = 64;
  std::atomic<int64_t> done{0};
  pool.for_pieces(kIndices, 1, [&](Range range, int thread) {
    // The long first call of thread 1 ends when nothing else is left.
    const double until = monotonic_seconds() + 20;
    while (thread == 1 && range.size() > 1 && done + range.size() < kIndices &&
           monotonic_seconds() < until)
      std::this_thread::yield();
    EXPECT_LT(monotonic_seconds(), until);
    done += range.size();
  });
  EXPECT_EQ(done, kIndices);
}

TEST(ThreadPool, TheLowestThreadsExceptionIsRethrownAndThePoolLivesOn) {
  ThreadPool pool(4);
  for (int i = 0; i < 20; ++i) {
    try {
      pool.run([](int thread) {
        if (thread == 3) throw std::runtime_error("three");
        if (thread == 1) throw std::runtime_error("one");
      });
      FAIL() << "nothing thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "one");
    }
  }
  std::atomic<int> calls{0};
  pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST(ThreadPool, RunInsideRunIsRefused) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([&](int) { pool.run([](int) {}); }), InternalError);
  EXPECT_THROW(ThreadPool(0), InternalError);
}

TEST(ThreadPool, QuotasRoundUpAndNoQuotaIsNoLimit) {
  const int unlimited = std::numeric_limits<int>::max();
  EXPECT_EQ(cores_of_quota("150000", "100000"), 2);
  EXPECT_EQ(cores_of_quota("100000", "100000"), 1);
  EXPECT_EQ(cores_of_quota("1", "100000"), 1);
  EXPECT_EQ(cores_of_quota("max", "100000"), unlimited);
  EXPECT_EQ(cores_of_quota("-1", "100000"), unlimited);
  EXPECT_EQ(cores_of_quota("", ""), unlimited);
  EXPECT_EQ(cores_of_quota("9223372036854775807", "1"), unlimited);
  EXPECT_GE(available_cores(), 1);
}

}  // namespace
}  // namespace megalith
