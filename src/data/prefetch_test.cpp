// SPDX-License-Identifier: Apache-2.0
#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"

namespace megalith::data {
namespace {

Prefetcher::Maker numbered(int64_t count, std::atomic<int64_t>& made) {
  return [count, &made](HostBatch& batch) {
    if (made == count) return false;
    batch.first_sample = made++;
    batch.ids_T.assign(1000, static_cast<int32_t>(batch.first_sample));
    return true;
  };
}

TEST(Prefetch, BatchesArriveInOrderAndEnd) {
  for (const int depth : {1, 2, 5}) {
    std::atomic<int64_t> made = 0;
    Prefetcher prefetcher(numbered(50, made), depth);
    for (int64_t i = 0; i < 50; ++i) {
      auto batch = prefetcher.next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->first_sample, i);
      EXPECT_EQ(batch->ids_T.back(), i);
      prefetcher.recycle(std::move(*batch));
    }
    EXPECT_FALSE(prefetcher.next());
    EXPECT_FALSE(prefetcher.next());
  }
}

TEST(Prefetch, NoMoreThanDepthWait) {
  std::atomic<int64_t> made = 0;
  Prefetcher prefetcher(numbered(1000, made), 3);
  ASSERT_TRUE(prefetcher.next());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(made, 1 + 3);
}

TEST(Prefetch, ErrorArrivesInItsPlaceAndStays) {
  std::atomic<int64_t> made = 0;
  Prefetcher prefetcher(
      [&made](HostBatch& batch) {
        if (made == 3) throw IntegrityError("planted");
        batch.first_sample = made++;
        return true;
      },
      2);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(prefetcher.next()->first_sample, i);
  EXPECT_THROW(prefetcher.next(), IntegrityError);
  EXPECT_THROW(prefetcher.next(), IntegrityError);
}

TEST(Prefetch, CancelDoesNotWaitForTheConsumer) {
  std::atomic<int64_t> made = 0;
  { const Prefetcher prefetcher(numbered(1000000, made), 2); }
  EXPECT_LE(made, 3);
}

TEST(Prefetch, WaitingIsMeasuredAndReadyBatchesCostNone) {
  const auto nap = std::chrono::milliseconds(40);
  Prefetcher slow(
      [nap](HostBatch&) {
        std::this_thread::sleep_for(nap);
        return true;
      },
      1);
  double longest = 0;  // of some: this thread may come so late that a batch is ready
  for (int i = 0; i < 100 && longest < 0.03; ++i) {
    const double before = slow.wait_seconds();
    slow.next();
    longest = std::max(longest, slow.wait_seconds() - before);
  }
  EXPECT_GE(longest, 0.03);

  std::atomic<int64_t> made = 0;
  Prefetcher fast(numbered(5, made), 5);
  while (made < 5) std::this_thread::yield();  // the maker's fifth call: four batches are ready
  for (int i = 0; i < 4; ++i) fast.next();
  EXPECT_EQ(fast.wait_seconds(), 0);
}

}  // namespace
}  // namespace megalith::data
