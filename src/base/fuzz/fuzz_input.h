// SPDX-License-Identifier: Apache-2.0
// What all fuzz targets share: the rule of what hostile bytes may cause, and a scratch folder for
// parsers that take a path. The rule is the program's: a UserError or an IntegrityError with a
// message, and nothing else. Any other exception ends the process, and libFuzzer reports it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace megalith::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs `body`; true if it took the input, false if it refused it with one of these errors.
template <typename Body>
bool accepts(const Body& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage && error.code() != ExitCode::integrity) throw;
    MEGA_CHECK(*error.what() != 0);
    return false;
  }
}

/// A folder of this process's own; in memory where the machine has /dev/shm.
class ScratchFolder {
 public:
  ScratchFolder() {
    const bool memory = std::filesystem::is_directory("/dev/shm");
    std::string name =
        (memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
        "megalith-fuzz-XXXXXX";
    MEGA_CHECK(mkdtemp(name.data()) != nullptr, "mkdtemp");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Overwrites a file of the folder.
  std::filesystem::path put(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    MEGA_CHECK(file != nullptr &&
               std::fwrite(content.data(), 1, content.size(), file) == content.size() &&
               std::fclose(file) == 0);
    return path;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace megalith::fuzz
