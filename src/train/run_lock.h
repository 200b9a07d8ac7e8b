// SPDX-License-Identifier: Apache-2.0
// One run per folder. The lock is flock(2) on `<run>/lock`: the kernel gives it back when the
// process ends, however it ends, so a crash leaves no lock behind. The file names its holder, for
// the message to whoever comes second, and for file systems shared between machines, where flock
// may not reach the other side.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace megalith::train {

/// Who wrote a lock file; pid 0: nobody, or it cannot be read.
struct LockHolder {
  int64_t pid = 0;
  int64_t ticks =
      0;  // start of the process, by its kernel's clock: pids are used again; 0: unknown
  std::string host;
  std::string since;
};

/// Whom a lock file names: what it holds, as a crash may have left it.
LockHolder holder_in(std::string_view text);

/// What to do about a lock file that names `holder` and whose flock was free: returns, having said
/// so, when it is what a crashed run left. On a file system that machines share (`shared`) our
/// flock may not see theirs: a holder that lives here is UserError, and so is one on another host,
/// dead or alive, with what a person who knows that it is dead has to remove.
void judge_left_over(const std::filesystem::path& lock, const LockHolder& holder, bool shared);

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
