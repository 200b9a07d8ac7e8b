// SPDX-License-Identifier: Apache-2.0
#include "device/placement.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>
#include <tuple>

#include "base/format.h"

namespace megalith::device {
namespace {

/// Sets of cores as the kernel's calls take them, large enough for any machine it runs on.
constexpr int kMostCores = 1 << 16;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CoreSet = std::unique_ptr<cpu_set_t, FreeSet>;
constexpr size_t kSetBytes = CPU_ALLOC_SIZE(kMostCores);

CoreSet empty_set() {
  CoreSet set(CPU_ALLOC(kMostCores));
  if (set != nullptr) CPU_ZERO_S(kSetBytes, set.get());
  return set;
}

/// A number of sysfs about a core; 0 when it is not there, so that such cores count as neighbours.
int topology(int core, const char* what) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", core, what));
  int value = 0;
  return file >> value ? value : 0;
}

}  // namespace

std::vector<int> cores_in_order() {
  const CoreSet set = empty_set();
  if (set == nullptr || sched_getaffinity(0, kSetBytes, set.get()) != 0) return {};
  std::vector<std::tuple<int, int, int>> found;
  for (int core = 0; core < kMostCores; ++core) {
    if (CPU_ISSET_S(core, kSetBytes, set.get()))
      found.emplace_back(topology(core, "physical_package_id"), topology(core, "core_id"), core);
  }
  std::ranges::sort(found);
  std::vector<int> cores;
  for (const auto& [package, physical, core] : found) cores.push_back(core);
  return cores;
}

bool keep_on_cores(std::span<const int> cores) {
  const CoreSet set = empty_set();
  if (set == nullptr || cores.empty()) return false;
  for (const int core : cores) CPU_SET_S(core, kSetBytes, set.get());
  return sched_setaffinity(0, kSetBytes, set.get()) == 0;
}

std::span<const int> cores_of_rank(std::span<const int> cores, std::span<const int> threads,
                                   int rank) {
  if (std::reduce(threads.begin(), threads.end()) != static_cast<int>(cores.size())) return {};
  const int before = std::reduce(threads.begin(), threads.begin() + rank);
  return cores.subspan(static_cast<size_t>(before),
                       static_cast<size_t>(threads[static_cast<size_t>(rank)]));
}

void place_workers(ThreadPool& pool) {
  const int threads = pool.num_threads();
  if (threads == 1 || threads != available_cores()) return;
  const std::vector<int> cores = cores_in_order();
  if (static_cast<int>(cores.size()) != threads) return;
  // A part may be done by any thread that is free: nobody is before all have begun one.
  std::atomic<int> begun = 0;
  pool.run([&](int thread) {
    ++begun;
    while (begun.load() < threads) std::this_thread::yield();
    if (thread > 0) keep_on_cores({&cores[static_cast<size_t>(thread)], 1});
  });
}

}  // namespace megalith::device
