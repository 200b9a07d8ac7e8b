// SPDX-License-Identifier: Apache-2.0
#include "file_faults.h"

#include <cstdio>
#include <cstdlib>

#include "fault_state.h"

namespace megalith::faults {
namespace {

/// For a program that this library is preloaded into.
[[gnu::constructor]] void read_environment() {
  const char* const wish = std::getenv("MEGA_FAULTS");
  if (wish == nullptr) return;
  const std::map<std::string, Call> calls = {{"open", Call::open},     {"look", Call::look},
                                             {"read", Call::read},     {"write", Call::write},
                                             {"sync", Call::sync},     {"close", Call::close},
                                             {"rename", Call::rename}, {"mkdir", Call::mkdir}};
  std::vector<std::string> words{""};
  for (const char* c = wish; *c != '\0'; ++c) {
    if (*c == '|') {
      words.emplace_back();
    } else {
      words.back() += *c;
    }
  }
  if (words.size() != 4 || !calls.contains(words[1])) {
    std::fprintf(stderr, "MEGA_FAULTS=%s is not FOLDER|CALL|ERROR|N\n", wish);
    std::abort();
  }
  const std::map<std::string, int> names = {{"exit", Injection::kExit}, {"hang", Injection::kHang}};
  const auto named = names.find(words[2]);
  const int number = named != names.end() ? named->second : std::atoi(words[2].c_str());
  const bool late = words[2].starts_with('+');
  const std::string until = "until:";
  const bool waits = words[2].starts_with(until);
  inject(words[0], {.call = calls.at(words[1]),
                    .nth = std::atoll(words[3].c_str()),
                    .error = late || waits ? 0 : number,
                    .late_ms = late ? number : 0,
                    .and_later = words[3].ends_with('+'),
                    .until = waits ? words[2].substr(until.size()) : ""});
}

}  // namespace

void record(const std::string& folder) {
  const std::lock_guard lock(state().mutex);
  state().folder = folder;
  state().recording = true;
  state().operations.clear();
}

std::vector<Operation> stop() {
  const std::lock_guard lock(state().mutex);
  state().folder.clear();
  state().recording = false;
  return std::move(state().operations);
}

void note(const std::string& text) {
  const std::lock_guard lock(state().mutex);
  add({Call::note, "", "", 0, text});
}

void inject(const std::string& folder, const Injection& injection) {
  const std::lock_guard lock(state().mutex);
  state().folder = folder;
  state().injection = injection;
  state().seen = 0;
}

void plain_renames(bool on) {
  const std::lock_guard lock(state().mutex);
  state().plain_renames = on;
}

void no_nameless_files(bool on) {
  const std::lock_guard lock(state().mutex);
  state().no_nameless_files = on;
}

bool injected() {
  const std::lock_guard lock(state().mutex);
  const bool reached = state().injection && state().seen >= state().injection->nth;
  state().folder.clear();
  state().injection.reset();
  return reached;
}

}  // namespace megalith::faults
