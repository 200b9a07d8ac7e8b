// SPDX-License-Identifier: Apache-2.0
// For the tests of this room: a folder that removes itself, small corpora in it, and the error that
// a call ends with, as text.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed_writer.h"

namespace megalith::data {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // In memory where there is such a folder: fsync costs nothing there.
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = ::access(memory.c_str(), W_OK) == 0;
    const auto parent = in_memory ? memory : std::filesystem::temp_directory_path();
    std::string pattern = (parent / "data_test_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw SystemError("mkdtemp {}", pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  /// Names of all files, hidden ones too, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path write_text(const std::filesystem::path& path, std::string_view text) {
  File file(path, File::Mode::create_or_truncate);
  file.write(text);
  file.close();
  return path;
}

inline void write_corpus(const std::filesystem::path& prefix,
                         const std::vector<std::vector<int32_t>>& documents,
                         TokenType type = TokenType::u16) {
  write_indexed(prefix, type, [&](IndexedWriter& writer) {
    for (const auto& document : documents) writer.add_document(document);
  });
}

/// One document of the ids begin, begin + 1, ...
inline std::vector<int32_t> counting(int32_t begin, size_t count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

/// "exit code: message" of the Error that `call` throws, or "no error".
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "no error";
}

}  // namespace megalith::data
