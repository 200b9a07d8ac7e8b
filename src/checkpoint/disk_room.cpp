// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/disk_room.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/step_folders.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// A checkpoint with its manifest, COMMIT and texts, and the run's own files beside it.
constexpr int64_t kSmallFiles = 12;
constexpr int64_t kSmallBytes = int64_t{1} << 20;

}  // namespace

int64_t bytes_on_disk(const FolderNeeds& needs) {
  return needs.bytes + needs.bytes / 100 + kSmallBytes;
}

int64_t check_disk(const fs::path& folder, const FolderNeeds& all) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0)
    throw SystemError("{} (statvfs): {}", folder.string(), std::strerror(errno));
  const int64_t bytes = bytes_on_disk(all), files = all.files + kSmallFiles;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free < static_cast<uint64_t>(bytes)) {
    throw SystemError(
        "{}: a checkpoint needs {} bytes, the disk has {} free; make room or set checkpoint.keep "
        "lower",
        folder.string(), bytes, free);
  }
  // Some file systems make room for as many files as there are, and say 0 of 0.
  if (disk.f_files > 0 && disk.f_favail < static_cast<uint64_t>(files)) {
    throw SystemError(
        "{}: a checkpoint needs {} bytes in {} files, the disk has room for {} more files; remove "
        "some or set checkpoint.keep lower",
        folder.string(), bytes, files, uint64_t{disk.f_favail});
  }
  return static_cast<int64_t>(free);
}

void check_file_size(const fs::path& folder, const FolderNeeds& own) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (limit.rlim_cur >= static_cast<uint64_t>(own.largest)) return;
  throw SystemError(
      "{}: a checkpoint needs {} bytes, {} of them in one file, and a file may have {} (ulimit "
      "-f); "
      "raise the limit",
      folder.string(), own.bytes, own.largest, uint64_t{limit.rlim_cur});
}

void warn_of_scarce_room(const fs::path& folder, const FolderNeeds& all, int64_t keep,
                         int64_t free) {
  const int64_t more = free / bytes_on_disk(all);
  const auto there = static_cast<int64_t>(step_folders(folder).size());
  if (there + more > keep) return;
  log::warning(
      "{}: there will be no room for {} checkpoints of {} bytes and one in progress: the disk has "
      "{} bytes free",
      folder.string(), keep, bytes_on_disk(all), free);
}

}  // namespace megalith::checkpoint
