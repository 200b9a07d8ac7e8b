// SPDX-License-Identifier: Apache-2.0
// A file that only grows, except that opening it may cut it back: the basis of metrics, samples and
// events. A checkpoint records `position()`. A resume opens the file at that position: what came
// after the checkpoint is removed, what came before stays untouched, byte for byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace megalith::report {

class AppendFile {
 public:
  /// Opens `path`, keeps its first `position` bytes and drops the rest. An absent file is created
  /// if `position` is 0; a file with fewer bytes is an IntegrityError.
  explicit AppendFile(const std::filesystem::path& path, int64_t position = 0);

  /// Writes `bytes` at the end in one call. If that fails, any part that was written is removed.
  void append(std::string_view bytes);
  /// The bytes written so far.
  int64_t position() const { return position_; }
  /// fsync: what was appended survives a power cut.
  void sync() { file_.sync(); }
  void close() { file_.close(); }
  bool is_open() const { return file_.is_open(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  File file_;
  int64_t position_ = 0;
};

/// The same for lines: `position` must be the end of a line or 0, else IntegrityError.
AppendFile open_lines(const std::filesystem::path& path, int64_t position);

/// The position after the last whole line of `path`, 0 if the file is absent. Passed to
/// `open_lines`, it removes only a torn last line.
int64_t end_of_whole_lines(const std::filesystem::path& path);

}  // namespace megalith::report
