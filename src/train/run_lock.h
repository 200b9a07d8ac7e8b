// SPDX-License-Identifier: Apache-2.0
// One run per folder. The lock is flock(2) on `<run>/lock`: the kernel gives it back when the
// process ends, however it ends, so a crash leaves no lock behind. The file names its holder, for
// the message to whoever comes second, and for file systems shared between machines, where flock
// may not reach the other side.
#pragma once

#include <filesystem>
#include <vector>

#include "base/file.h"

namespace megalith::train {

class RunLock {
 public:
  /// Makes the folder if need be and takes the lock, before anything in it is read or changed.
  /// UserError naming process and host when another run holds it, or when the folder cannot be made
  /// or written; says so when it takes over what a crashed run left.
  explicit RunLock(const std::filesystem::path& folder);
  /// Removes the file, and the folders that the constructor made if nothing came into them, and
  /// lets go.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // from the run folder upwards
  File file_;
};

}  // namespace megalith::train
