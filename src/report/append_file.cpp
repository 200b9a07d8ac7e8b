// SPDX-License-Identifier: Apache-2.0
// Writes go to an explicit offset (pwrite), so position_ alone says where the file ends and a
// failed write can be undone by cutting the file back to it.
#include "report/append_file.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/folder.h"
#include "base/log.h"

namespace megalith::report {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kBlock = int64_t{1} << 16;

File open_at(const fs::path& path, int64_t position) {
  MEGA_CHECK_GE(position, 0);
  if (!fs::exists(path)) {
    if (position > 0) {
      throw IntegrityError(
          "{}: the file is missing, but the checkpoint recorded {} bytes of it; put it back, or "
          "start in a new folder",
          path.string(), position);
    }
    return File(path, File::Mode::create_new);
  }
  require_regular(path);
  File file(path, File::Mode::read_write);
  if (file.size() < position) {
    throw IntegrityError(
        "{}: {} bytes long, but the checkpoint recorded {}; put the whole file back, or start in a "
        "new folder",
        path.string(), file.size(), position);
  }
  if (file.size() > position) file.truncate(position);
  return file;
}

}  // namespace

AppendFile::AppendFile(const fs::path& path, int64_t position)
    : file_(open_at(path, position)), position_(position) {}

void AppendFile::append(std::string_view bytes) {
  try {
    file_.write_at(bytes.data(), bytes.size(), position_);
  } catch (const Error&) {
    try {
      file_.truncate(position_);
    } catch (const Error& error) {
      log::error("{}", error.what());  // the first failure is the one to report upwards
    }
    throw;
  }
  position_ += static_cast<int64_t>(bytes.size());
}

AppendFile open_lines(const fs::path& path, int64_t position) {
  if (position > 0 && fs::exists(path)) {
    require_regular(path);
    const File file(path, File::Mode::read);
    char last = '\n';
    if (file.size() >= position) file.read_at(&last, 1, position - 1);
    if (last != '\n') {
      throw IntegrityError(
          "{}: byte {}, where the checkpoint saw the end of a line, is inside one; the file was "
          "changed: put it back, or start in a new folder",
          path.string(), position);
    }
  }
  return AppendFile(path, position);
}

int64_t end_of_whole_lines(const fs::path& path) {
  if (!fs::exists(path)) return 0;
  require_regular(path);
  // Backwards in blocks: the file may be long, its last line is not. (Not mapped: a file that
  // shrinks under a map is a SIGBUS.)
  const File file(path, File::Mode::read);
  std::string block;
  for (int64_t end = file.size(); end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kBlock);
    block.resize(static_cast<size_t>(end - begin));
    file.read_at(block.data(), block.size(), begin);
    if (const size_t newline = block.rfind('\n'); newline != std::string::npos)
      return begin + static_cast<int64_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

}  // namespace megalith::report
