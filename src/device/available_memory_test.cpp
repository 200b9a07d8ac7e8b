// SPDX-License-Identifier: Apache-2.0
// Limits are found wherever they are set: on the group itself or above it, in either version.
#include "device/available_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "device/target.h"

namespace megalith::device {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

class AvailableMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "memory-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    put("proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void group(const std::string& folder, const char* limit, int64_t used, int64_t cache,
             bool v2) const {
    const fs::path path = fs::path("sys/fs/cgroup") / folder;
    put(path / (v2 ? "memory.max" : "memory.limit_in_bytes"), std::string(limit) + "\n");
    put(path / (v2 ? "memory.current" : "memory.usage_in_bytes"), std::to_string(used) + "\n");
    // Version 1 lists its own figures first, those with all groups below behind "total_".
    const std::string total = v2 ? "" : "total_";
    const auto line = [](const std::string& key, int64_t value) {
      return key + " " + std::to_string(value) + "\n";
    };
    put(path / "memory.stat",
        "anon 5\n" + (v2 ? "" : line("inactive_file", 7)) + line(total + "active_anon", 9) +
            line(total + "inactive_file", cache) + line(total + "active_file", 2 * cache) +
            (v2 ? line("slab_reclaimable", 3 * cache) + line("slab_unreclaimable", 9) : ""));
  }
  fs::path root_;
};

TEST_F(AvailableMemoryTest, WithoutGroupsTheMachineDecides) {
  const AvailableMemory memory = available_memory(root_);
  EXPECT_EQ(memory.machine, 8192 * kMiB);
  EXPECT_EQ(memory.bytes(), 4096 * kMiB);
  EXPECT_FALSE(memory.group.has_value());
  EXPECT_THAT(memory.text(), HasSubstr("the machine has 4.00 GiB"));
}

TEST_F(AvailableMemoryTest, Version2CountsGroupsAboveAndCachesAsFree) {
  put("proc/self/cgroup", "0::/slice/job\n");
  group("slice/job", "max", 100, 0, true);
  group("slice", "1073741824", 700 * kMiB, 50 * kMiB, true);
  const AvailableMemory memory = available_memory(root_);
  EXPECT_EQ(memory.group, 1024 * kMiB);
  EXPECT_EQ(memory.bytes(), (1024 - 700 + 50 * (1 + 2 + 3)) * kMiB);
  EXPECT_THAT(memory.text(), HasSubstr("cgroup/slice leaves"));
  group("slice/job", "104857600", 100 * kMiB, 0, true);
  EXPECT_EQ(available_memory(root_).bytes(), 0);
  EXPECT_EQ(available_memory(root_).group, 100 * kMiB);
}

TEST_F(AvailableMemoryTest, Version1AndItsWordForNoLimit) {
  put("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/1234\n0::/\n");
  group("memory/docker/1234", "9223372036854771712", 5, 0, false);
  EXPECT_FALSE(available_memory(root_).group.has_value());
  // Inside a container the group is what is mounted, whatever its name outside.
  fs::remove_all(root_ / "sys/fs/cgroup/memory/docker");
  group("memory", "536870912", 100 * kMiB, 30 * kMiB, false);
  EXPECT_EQ(available_memory(root_).bytes(), (512 - 100 + 30 * (1 + 2)) * kMiB);
  // Never more than the limit: the figures are not of one moment.
  group("memory", "536870912", 80 * kMiB, 30 * kMiB, false);
  EXPECT_EQ(available_memory(root_).bytes(), 512 * kMiB);
}

// The limit leaves room above what is mapped already: an AddressSanitizer build maps terabytes.
TEST_F(AvailableMemoryTest, TheAddressSpaceLimitCounts) {
  int64_t mapped_pages = 0;
  ASSERT_TRUE(std::ifstream("/proc/self/statm") >> mapped_pages);
  const int64_t bound = mapped_pages * ::sysconf(_SC_PAGE_SIZE) + 3000 * kMiB;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{static_cast<rlim_t>(bound), RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
    const AvailableMemory memory = available_memory(root_);
    const bool right = memory.address_space == bound && memory.bytes() > 2900 * kMiB &&
                       memory.bytes() <= 3000 * kMiB &&
                       memory.text().find("ulimit -v") != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(AvailableMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(available_memory().bytes(), 0);
  EXPECT_GT(memory_bytes(), available_memory().bytes() / 2);
}

}  // namespace
}  // namespace megalith::device
