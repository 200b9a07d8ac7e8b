// SPDX-License-Identifier: Apache-2.0
#include "train/run_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/host.h"
#include "base/interrupted.h"
#include "base/json_number.h"
#include "base/log.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

/// Field 22 of /proc/<pid>/stat; 0 when there is no such process.
int64_t start_ticks(int64_t pid) {
  const fs::path path = fmt::format("/proc/{}/stat", pid);
  std::error_code error;
  if (pid <= 0 || !fs::exists(path, error)) return 0;
  try {
    const std::string text = read_file(path, 1 << 16);
    // The second field is the program's name in parentheses and may hold anything.
    size_t at = text.rfind(')');
    for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
    return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at, nullptr, 10);
  } catch (const Error&) {
    return 0;  // it ended while we looked
  }
}

LockHolder read_holder(const File& file) {
  std::string text(static_cast<size_t>(std::clamp<int64_t>(file.size(), 0, 4096)), '\0');
  file.read_at(text.data(), text.size(), 0);
  return holder_in(text);
}

void write_holder(File& file) {
  const int64_t pid = ::getpid();
  const nlohmann::ordered_json json{{"pid", pid},
                                    {"ticks", start_ticks(pid)},
                                    {"host", host_name()},
                                    {"since", iso_time(wall_seconds())}};
  const std::string text = json.dump() + "\n";
  file.write_at(text.data(), text.size(), 0);
  file.truncate(static_cast<int64_t>(text.size()));
}

/// True where one kernel sees every lock: disks of this machine, memory.
bool is_local(const File& file) {
  struct statfs status {};
  if (::fstatfs(file.fd(), &status) != 0) return false;
  constexpr std::array<uint32_t, 8> kLocal{0xEF53,      // ext2, ext3, ext4
                                           0x58465342,  // xfs
                                           0x9123683E,  // btrfs
                                           0x01021994,  // tmpfs
                                           0x858458F6,  // ramfs
                                           0x794C7630,  // overlay
                                           0x2FC12FC1,  // zfs
                                           0xF2F52010};
  return std::ranges::find(kLocal, static_cast<uint32_t>(status.f_type)) != kLocal.end();
}

[[noreturn]] void refuse(const fs::path& path, const LockHolder& holder) {
  const std::string who = holder.pid > 0 ? fmt::format("process {} on host {} (since {})",
                                                       holder.pid, holder.host, holder.since)
                                         : "another process";
  throw UserError(
      "{}: {} is training in this folder; wait for it or stop it, or set another run.out",
      path.parent_path().string(), who);
}

/// The lock file, made if absent. Not through a link: it could lead anywhere.
File open_lock(const fs::path& path) {
  while (true) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno != ENOENT) {
        throw UserError("run.out {}: {}; choose another", path.parent_path().string(),
                        std::strerror(errno));
      }
      try {
        return File(path, File::Mode::create_new);
      } catch (const UserError&) {
        if (::lstat(path.c_str(), &status) != 0) throw;  // not a race for the name
      }
    }
    if (!S_ISREG(status.st_mode)) {
      throw UserError("{}: is not a regular file; remove it or set another run.out", path.string());
    }
    std::error_code gone;
    try {
      return File(path, File::Mode::read_write);
    } catch (const UserError&) {
      if (fs::exists(path, gone)) throw;  // else the holder has just left: once more
    }
  }
}

/// True when `path` still names the open file: its holder may have removed it meanwhile.
bool is_current(const File& file) {
  struct stat open {
  }, named{};
  return ::fstat(file.fd(), &open) == 0 && ::lstat(file.path().c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

LockHolder holder_in(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  try {
    if (!json.is_object()) return {};
    return {whole_number(json, "pid", ""), whole_number(json, "ticks", ""),
            json.at("host").get<std::string>(), json.at("since").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const IntegrityError&) {
    return {};
  }
}

void judge_left_over(const fs::path& path, const LockHolder& holder, bool shared) {
  if (holder.pid <= 0) return;
  if (shared && holder.host != host_name()) {
    throw UserError(
        "{}: process {} on host {} began a run in this folder at {} and did not end it, and from "
        "here nobody can tell whether it still runs; when you know that the process is gone or the "
        "host is dead, remove {} and start again",
        path.parent_path().string(), holder.pid, holder.host, holder.since, path.string());
  }
  // Without its start time a process cannot be told from a later one with the same number.
  if (shared && holder.ticks > 0 && start_ticks(holder.pid) == holder.ticks) refuse(path, holder);
  log::info("taking over {} from process {} on host {}, which is gone", path.string(), holder.pid,
            holder.host);
}

RunLock::RunLock(const fs::path& folder) : path_(folder / "lock") {
  made_ = make_folders(folder);
  while (true) {
    File file = open_lock(path_);
    const int status = retry([&] { return ::flock(file.fd(), LOCK_EX | LOCK_NB); });
    if (status != 0 && errno == EWOULDBLOCK) refuse(path_, read_holder(file));
    // Without flock (some network file systems) what the file says decides alone.
    if (status == 0 && !is_current(file)) continue;
    judge_left_over(path_, read_holder(file), !is_local(file));
    write_holder(file);
    file_ = std::move(file);
    return;
  }
}

RunLock::~RunLock() {
  // Removed while still held, so that nobody else's file is.
  if (is_current(file_)) ::unlink(path_.c_str());
  // A run that was refused leaves nothing; folders that hold something stay by themselves.
  for (const fs::path& folder : made_) {
    if (::rmdir(folder.c_str()) != 0) break;
  }
}

}  // namespace megalith::train
