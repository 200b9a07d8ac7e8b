// SPDX-License-Identifier: Apache-2.0
// How many cores the process may use: the affinity mask, cut by the CPU quota of its control group
// (version 2, every ancestor; version 1, the mounted root), as containers set it.
#include <sched.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/check.h"
#include "base/cores.h"
#include "base/thread_pool.h"

namespace megalith {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();

int cores_in_affinity_mask() {
  // The kernel refuses a mask smaller than its own: double until it fits.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const int status = sched_getaffinity(0, size, set);
    const int error = errno;
    const int count = status == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (status == 0) return count;
    if (error != EINVAL) break;
  }
  return 1;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;  // empty if the file is absent: no limit of that kind
}

}  // namespace

int cores_of_quota(const std::string& quota, const std::string& period) {
  try {
    const int64_t quota_us = std::stoll(quota), period_us = std::stoll(period);
    if (quota_us <= 0 || period_us <= 0) return kUnlimited;  // version 1 writes -1 for no limit
    const int64_t cores = (quota_us - 1) / period_us + 1;
    return cores < kUnlimited ? static_cast<int>(cores) : kUnlimited;
  } catch (const std::logic_error&) {
    return kUnlimited;  // "max", or no such file
  }
}

int available_cores() {
  int cores = cores_in_affinity_mask();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    std::string folder = line.substr(3);
    while (true) {
      std::istringstream words(first_line("/sys/fs/cgroup" + folder + "/cpu.max"));
      std::string quota, period;
      words >> quota >> period;
      cores = std::min(cores, cores_of_quota(quota, period));
      const size_t slash = folder.find_last_of('/');
      if (folder.empty() || slash == std::string::npos) break;
      folder.resize(slash);
    }
  }
  const std::string root = "/sys/fs/cgroup/cpu/cpu.cfs_";
  cores = std::min(cores,
                   cores_of_quota(first_line(root + "quota_us"), first_line(root + "period_us")));
  return std::max(cores, 1);
}

}  // namespace megalith
