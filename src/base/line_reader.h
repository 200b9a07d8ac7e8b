// SPDX-License-Identifier: Apache-2.0
// The lines of a file, one at a time. Memory follows the longest line, not the file, and the caller
// limits that line. (A sparse file of terabytes is a single line of zeros.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace megalith {

class LineReader {
 public:
  /// Reads `path` from its beginning; throws what File throws.
  LineReader(const std::filesystem::path& path, int64_t most_line_bytes);

  /// The next whole line without its '\n', valid until the next call. False at the end, and before
  /// a line that is too long.
  bool next(std::string_view& line);
  /// The number of the last line returned, from 1.
  int64_t number() const { return number_; }
  /// After next() returned false: is the following line longer than allowed?
  bool is_too_long() const { return too_long_; }
  /// After next() returned false, and unless the line is too long: the text after the last '\n'.
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }

 private:
  File file_;
  int64_t most_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;    // of what was not given yet
  size_t scanned_ = 0;  // no '\n' in front of this, from begin_ on
  int64_t number_ = 0;
  bool ended_ = false;
  bool too_long_ = false;
};

}  // namespace megalith
