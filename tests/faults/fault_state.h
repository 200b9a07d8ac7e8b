// SPDX-License-Identifier: Apache-2.0
// What the interposed calls share: which folder is watched, what is recorded and which call fails.
// One object behind a mutex: the only global, because the C library's interface has no other place.
#pragma once

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "file_faults.h"

namespace megalith::faults {

struct State {
  std::mutex mutex;
  std::string folder;  // empty: nothing is watched
  bool recording = false;
  std::vector<Operation> operations;
  std::optional<Injection> injection;
  int64_t seen = 0;  // calls of the injection's kind
  bool plain_renames = false;
  bool no_nameless_files = false;
  int64_t nameless = 0;  // files so far
  struct OpenFile {
    std::string path;
    bool writable;
    bool nameless = false;
  };
  std::map<int, OpenFile> open_files;
};
State& state();

/// The C library's own.
template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Under the mutex:

/// The path below the watched folder, or nothing.
std::optional<std::string> below(const std::string& path);
std::optional<std::string> below(int folder_fd, const char* path);
std::optional<std::string> below(int fd);

/// True if this call is the one that shall fail; errno is then set. A late call, one that waits and
/// one that hangs let the others go on.
bool fails(std::unique_lock<std::mutex>& lock, Call call, const std::optional<std::string>& path);

void add(Operation operation);

}  // namespace megalith::faults
