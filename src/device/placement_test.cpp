// SPDX-License-Identifier: Apache-2.0
// Threads are placed within what the process was given, each on another core, and only where they
// are as many as the cores; what the calling thread starts later is as free as it was.
#include "device/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "device/device.h"

namespace megalith::device {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

std::vector<int> numbers(std::span<const int> span) { return {span.begin(), span.end()}; }

/// What each thread of the pool may use, by its index.
std::vector<std::vector<int>> cores_of_threads(ThreadPool& pool) {
  std::vector<std::vector<int>> cores(static_cast<size_t>(pool.num_threads()));
  std::atomic<int> begun = 0;
  pool.run([&](int thread) {
    ++begun;
    while (begun.load() < pool.num_threads()) std::this_thread::yield();
    cores[static_cast<size_t>(thread)] = cores_in_order();
  });
  return cores;
}

TEST(Placement, ranks_share_the_cores_in_order) {
  const std::vector<int> cores{4, 6, 0, 2, 9};
  const std::array threads{2, 1, 2};
  EXPECT_THAT(numbers(cores_of_rank(cores, threads, 0)), ElementsAre(4, 6));
  EXPECT_THAT(numbers(cores_of_rank(cores, threads, 1)), ElementsAre(0));
  EXPECT_THAT(numbers(cores_of_rank(cores, threads, 2)), ElementsAre(2, 9));
  const std::array more{2, 2, 2}, fewer{1, 1, 1};
  EXPECT_THAT(numbers(cores_of_rank(cores, more, 0)), IsEmpty());
  EXPECT_THAT(numbers(cores_of_rank(cores, fewer, 0)), IsEmpty());
}

TEST(Placement, the_workers_of_a_device_have_a_core_each) {
  const std::vector<int> all = cores_in_order();
  if (all.empty() || static_cast<int>(all.size()) != available_cores())
    GTEST_SKIP() << "a control group gives less than the mask";
  const auto device = make_cpu_device(static_cast<int>(all.size()));
  const auto cores = cores_of_threads(device->pool());
  EXPECT_THAT(cores[0], UnorderedElementsAreArray(all)) << "the caller stays free";
  std::set<int> used;
  for (size_t i = 1; i < cores.size(); ++i) {
    ASSERT_EQ(cores[i].size(), 1U) << i;
    EXPECT_TRUE(used.insert(cores[i][0]).second) << i;
  }
}

TEST(Placement, other_numbers_of_threads_are_left_to_the_system) {
  const std::vector<int> all = cores_in_order();
  ThreadPool pool(static_cast<int>(all.size()) + 1);
  place_workers(pool);
  for (const auto& cores : cores_of_threads(pool))
    EXPECT_THAT(cores, UnorderedElementsAreArray(all));
}

TEST(Placement, a_narrower_mask_is_respected) {
  std::thread([] {
    const std::vector<int> all = cores_in_order();
    ASSERT_FALSE(all.empty());
    ASSERT_TRUE(keep_on_cores({&all.back(), 1}));
    EXPECT_THAT(cores_in_order(), ElementsAre(all.back()));
    EXPECT_EQ(available_cores(), 1);
    const auto device = make_cpu_device(2);
    for (const auto& cores : cores_of_threads(device->pool()))
      EXPECT_THAT(cores, ElementsAre(all.back()));
  }).join();
}

}  // namespace
}  // namespace megalith::device
