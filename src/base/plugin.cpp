// SPDX-License-Identifier: Apache-2.0
#include "base/plugin.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "base/error.h"

namespace megalith {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::array<fs::path, 2> places_of(const std::string& file) {
  const fs::path folder = folder_of_program();
  return {folder / file, folder / ".." / "lib" / file};
}

}  // namespace

bool has_plugin(const std::string& file) {
  std::error_code error;
  for (const fs::path& path : places_of(file))
    if (fs::exists(path, error)) return true;
  return false;
}

void* open_plugin(const std::string& file, const char* entry, bool is_global,
                  const std::string& what, const std::string& remedy) {
  std::string reasons;
  for (const fs::path& path : places_of(file)) {
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    void* const found = handle != nullptr ? ::dlsym(handle, entry) : nullptr;
    if (found != nullptr) return found;
    reasons += fmt::format("; {}", ::dlerror());
  }
  throw SystemError("{}, but {} cannot be opened from {} or ../lib{}; {}", what, file,
                    folder_of_program().string(), reasons, remedy);
}

}  // namespace megalith
