// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staged_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/file.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path temporary_beside(const fs::path& path) {
  std::random_device device;
  const uint64_t bits = (uint64_t{device()} << 32) | device();
  return parent_of(path) / fmt::format(".tmp-{:016x}", bits);
}

/// rename(2), the two names exchanged if `flags` say so; the error number.
int rename_error(const fs::path& from, const fs::path& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

}  // namespace

StagedFolder::StagedFolder(fs::path target)
    : target_(std::move(target)), path_(temporary_beside(target_)) {
  if (::mkdir(path_.c_str(), 0755) != 0) {
    const int error = errno;
    const std::string name = path_.string();
    path_.clear();
    throw SystemError("{} (mkdir): {}", name, std::strerror(error));
  }
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;  // already failing: what stays is removed at the next start
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void StagedFolder::put_in_place() {
  sync_folder(path_);
  bool exchanged = false;
  int error = rename_error(path_, target_, RENAME_NOREPLACE);
  if (error == EEXIST || error == ENOTEMPTY) {
    error = rename_error(path_, target_, RENAME_EXCHANGE);
    exchanged = error == 0;
  }
  if (error == EINVAL || error == ENOSYS) {
    // A file system without these flags: the old one goes first.
    if (fs::exists(target_)) remove_folder(target_);
    error = rename_error(path_, target_, 0);
  }
  if (error != 0) throw SystemError("{} (rename): {}", target_.string(), std::strerror(error));
  try {
    sync_folder(parent_of(target_));
  } catch (...) {
    // Not known to be durable, so not there: the failure that is reported must be the whole truth.
    rename_error(target_, path_, exchanged ? RENAME_EXCHANGE : RENAME_NOREPLACE);
    throw;
  }
  if (exchanged) fs::remove_all(path_);
  path_.clear();
}

void remove_folder(const fs::path& folder) {
  const fs::path away = temporary_beside(folder);
  const int error = rename_error(folder, away, 0);
  if (error != 0) throw SystemError("{} (rename): {}", folder.string(), std::strerror(error));
  sync_folder(parent_of(folder));
  fs::remove_all(away);
}

}  // namespace megalith::checkpoint
