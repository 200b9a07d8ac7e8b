// SPDX-License-Identifier: Apache-2.0
// How much memory this process may take now: what the machine has left, what its control group (v1
// or v2, with all groups above it) leaves, what its address-space limit leaves. Going over the
// second means being killed without a word, so whoever plans must ask first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace megalith::device {

struct AvailableMemory {
  int64_t machine = 0;           // all of it
  int64_t machine_free = 0;      // without pushing others out (MemAvailable)
  std::optional<int64_t> group;  // the tightest limit of a control group
  std::optional<int64_t>
      group_free;          // what it leaves; what the kernel can take back counts as free
  std::string group_path;  // of that group
  std::optional<int64_t> address_space;  // RLIMIT_AS
  std::optional<int64_t> address_space_free;

  /// The least of all that is left.
  int64_t bytes() const;
  /// "the machine has 3.1 GiB free of 8.0 GiB", or the same of what is least.
  std::string text() const;
};

/// Reads /proc and /sys/fs/cgroup under `root` (tests); the limits of this process.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

}  // namespace megalith::device
