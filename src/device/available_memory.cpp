// SPDX-License-Identifier: Apache-2.0
// Files: proc(5), Linux Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
#include "device/available_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

namespace megalith::device {
namespace {

namespace fs = std::filesystem;

/// The number that a one-line file holds; nothing for "max", an absent file, or v1's "no limit"
/// (the largest multiple of a page).
std::optional<int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = 0;
  if (!(file >> text) ||
      std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    return std::nullopt;
  if (value < 0 || value >= (int64_t{1} << 60)) return std::nullopt;
  return value;
}

/// The sum of the values of `keys` in a file of lines "key 123"; 0 when it has none of them.
int64_t value_of(const fs::path& path, std::span<const std::string_view> keys) {
  std::ifstream file(path);
  std::string line;
  int64_t sum = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word >> value && std::ranges::find(keys, word) != keys.end()) sum += value;
  }
  return sum;
}

int64_t value_of(const fs::path& path, std::string_view key) {
  return value_of(path, std::span(&key, 1));
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  /// In memory.stat: what the kernel takes back before it kills. Files that were read, lately or
  /// long ago (a program that has gone through a corpus finds its group full of them), and, where
  /// it is told, the kernel's caches of names.
  std::array<std::string_view, 3> reclaimable;
};
constexpr GroupFiles kV1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kV2{
    "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};

/// Folds in the limits of `group` under `mount` and of all groups above it. In a container the path
/// may name a place outside of what is mounted: then the mount itself is the group.
void take_groups(const fs::path& mount, const std::string& group, const GroupFiles& files,
                 AvailableMemory& memory) {
  fs::path relative = fs::path(group).relative_path();
  while (true) {
    const fs::path folder = relative.empty() ? mount : mount / relative;
    if (const auto limit = number_in(folder / files.limit)) {
      const int64_t used = number_in(folder / files.usage).value_or(0);
      const int64_t cached = std::min(used, value_of(folder / "memory.stat", files.reclaimable));
      const int64_t left = std::max<int64_t>(0, *limit - used + cached);
      if (!memory.group_free || left < *memory.group_free) {
        memory.group_free = left;
        memory.group_path = folder.string();
      }
      memory.group = std::min(*limit, memory.group.value_or(*limit));
    }
    if (relative.empty()) return;
    relative = relative.parent_path();
  }
}

/// Lines "4:memory:/path" (v1) and "0::/path" (v2).
void read_groups(const fs::path& root, AvailableMemory& memory) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      take_groups(mount, group, kV2, memory);
      take_groups(mount / "unified", group, kV2, memory);
    } else if (controllers.find(",memory,") != std::string::npos) {
      take_groups(mount / "memory", group, kV1, memory);
    }
  }
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

int64_t AvailableMemory::bytes() const {
  int64_t least = machine_free;
  if (group_free) least = std::min(least, *group_free);
  if (address_space_free) least = std::min(least, *address_space_free);
  return least;
}

std::string AvailableMemory::text() const {
  const int64_t least = bytes();
  if (group_free && *group_free == least) {
    return fmt::format("the control group {} leaves {} ({} bytes) of {}", group_path, gib(least),
                       least, gib(group.value_or(0)));
  }
  if (address_space_free && *address_space_free == least) {
    return fmt::format("the address-space limit (ulimit -v) leaves {} ({} bytes) of {}", gib(least),
                       least, gib(address_space.value_or(0)));
  }
  return fmt::format("the machine has {} ({} bytes) free of {}", gib(least), least, gib(machine));
}

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory memory;
  const fs::path meminfo = root / "proc/meminfo";
  memory.machine = value_of(meminfo, "MemTotal:") * 1024;
  memory.machine_free = value_of(meminfo, "MemAvailable:") * 1024;
  // Without /proc (or a descriptor left to read it) the C library knows half of it.
  if (memory.machine == 0)
    memory.machine = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  if (memory.machine_free == 0) memory.machine_free = memory.machine;
  read_groups(root, memory);
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    memory.address_space = static_cast<int64_t>(
        std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(int64_t{1} << 60)));
    const int64_t used = value_of("/proc/self/status", "VmSize:") * 1024;
    memory.address_space_free = std::max<int64_t>(0, *memory.address_space - used);
  }
  return memory;
}

}  // namespace megalith::device
