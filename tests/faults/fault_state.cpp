// SPDX-License-Identifier: Apache-2.0
#include "fault_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace megalith::faults {

State& state() {
  static State* const the_state = new State;  // outlives every static destructor that closes files
  return *the_state;
}

std::optional<std::string> below(const std::string& path) {
  const std::string& folder = state().folder;
  if (folder.empty() || path.compare(0, folder.size(), folder) != 0) return std::nullopt;
  if (path.size() == folder.size()) return "";
  if (path[folder.size()] != '/') return std::nullopt;
  std::string rest = path.substr(folder.size() + 1);
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  return rest;
}

std::optional<std::string> below(int folder_fd, const char* path) {
  if (path[0] == '/' || folder_fd == AT_FDCWD) return below(std::string(path));
  const auto found = state().open_files.find(folder_fd);
  if (found == state().open_files.end()) return std::nullopt;
  return found->second.path.empty() ? path : found->second.path + "/" + path;
}

std::optional<std::string> below(int fd) {
  const auto found = state().open_files.find(fd);
  return found == state().open_files.end() ? std::nullopt : std::optional(found->second.path);
}

bool fails(std::unique_lock<std::mutex>& lock, Call call, const std::optional<std::string>& path) {
  State& s = state();
  if (!path || !s.injection || s.injection->call != call) return false;
  const Injection injection = *s.injection;
  ++s.seen;
  if (s.seen < injection.nth || (s.seen > injection.nth && !injection.and_later)) return false;
  if (injection.late_ms > 0 || !injection.until.empty()) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(injection.late_ms));
    while (!injection.until.empty() && ::access(injection.until.c_str(), F_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
    return false;
  }
  if (injection.error == Injection::kExit) ::_exit(7);
  if (injection.error == Injection::kHang) {
    lock.unlock();
    while (true) ::pause();
  }
  errno = injection.error;
  return true;
}

void add(Operation operation) {
  if (state().recording) state().operations.push_back(std::move(operation));
}

}  // namespace megalith::faults
