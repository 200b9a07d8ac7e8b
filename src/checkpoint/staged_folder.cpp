// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staged_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/failure.h"
#include "base/file.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// ".tmp-aside-", 16 digits, "-", the name that it had.
constexpr std::string_view kAsideMark = "aside-";
constexpr size_t kAsideHead = std::string_view(".tmp-aside-0123456789abcdef").size();

fs::path aside_of(const fs::path& target) {
  fs::path aside = temporary_beside(target, kAsideMark);
  aside += "-" + target.filename().string();
  return aside;
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
    if (is_mistake(error)) throw UserError("{}: {}; name another path", name, std::strerror(error));
    throw SystemError("{} (mkdir): {}", name, std::strerror(error));
  }
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;  // already failing: what stays is removed at the next start
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

/// Where a file system cannot exchange names: what is there goes aside, then the folder takes its
/// place. A cut between leaves the place empty, and put_back() mends that. The error number; sets
/// `aside` to where the old one is.
int StagedFolder::take_place(fs::path& aside) const {
  if (fs::exists(fs::symlink_status(target_))) {
    const fs::path away = aside_of(target_);
    if (const int error = rename_error(target_, away, 0); error != 0) return error;
    aside = away;
  }
  const int error = rename_error(path_, target_, 0);
  if (error != 0 && !aside.empty()) rename_error(aside, target_, 0);
  return error;
}

void StagedFolder::put_in_place() {
  sync_folder(path_);
  fs::path aside;
  bool exchanged = false;
  int error = rename_error(path_, target_, RENAME_NOREPLACE);
  if (error == EEXIST || error == ENOTEMPTY) {
    error = rename_error(path_, target_, RENAME_EXCHANGE);
    exchanged = error == 0;
  }
  if (error == EINVAL || error == ENOSYS) error = take_place(aside);
  if (error != 0) throw SystemError("{} (rename): {}", target_.string(), std::strerror(error));
  try {
    sync_folder(parent_of(target_));
  } catch (...) {
    // Not known to be durable, so not there: the failure that is reported must be the whole truth.
    rename_error(target_, path_, exchanged ? RENAME_EXCHANGE : 0);
    if (!aside.empty()) rename_error(aside, target_, 0);
    throw;
  }
  std::error_code ignored;  // what stays of the old one is removed at the next start
  if (exchanged) fs::remove_all(path_, ignored);
  if (!aside.empty()) fs::remove_all(aside, ignored);
  path_.clear();
}

bool is_aside_name(std::string_view name) {
  return name.size() > kAsideHead + 1 && name[kAsideHead] == '-' &&
         is_temporary_name(name.substr(0, kAsideHead), kAsideMark);
}

bool put_back(const fs::path& left) {
  const std::string name = left.filename().string();
  if (!is_aside_name(name)) return false;
  const fs::path target = parent_of(left) / name.substr(kAsideHead + 1);
  if (fs::exists(fs::symlink_status(target))) return false;
  const int error = rename_error(left, target, 0);
  if (error != 0) throw SystemError("{} (rename): {}", left.string(), std::strerror(error));
  sync_folder(parent_of(target));
  return true;
}

void remove_folder(const fs::path& folder) {
  const fs::path away = temporary_beside(folder);
  const int error = rename_error(folder, away, 0);
  if (error != 0) throw SystemError("{} (rename): {}", folder.string(), std::strerror(error));
  sync_folder(parent_of(folder));
  fs::remove_all(away);
}

}  // namespace megalith::checkpoint
