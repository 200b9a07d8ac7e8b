// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/own_file.h"

#include "base/error.h"

namespace megalith::checkpoint {

namespace fs = std::filesystem;

fs::file_type kind_of(const fs::path& path) {
  std::error_code error;
  const fs::file_type kind = fs::symlink_status(path, error).type();
  if (kind == fs::file_type::none)
    throw SystemError("{} (lstat): {}", path.string(), error.message());
  return kind;
}

File open_own(const fs::path& path) {
  if (kind_of(path) != fs::file_type::regular) {
    throw IntegrityError("{} is missing or not a regular file", path.string());
  }
  try {
    return File(path, File::Mode::read);
  } catch (const UserError& error) {
    throw SystemError("a file of a checkpoint cannot be opened: {}", error.what());
  }
}

std::string read_own(const fs::path& path, int64_t limit) {
  const File file = open_own(path);
  const int64_t size = file.size();
  if (size > limit) throw IntegrityError("{}: {} bytes are too many", path.string(), size);
  std::string text(static_cast<size_t>(size), '\0');
  file.read_at(text.data(), text.size(), 0);
  return text;
}

}  // namespace megalith::checkpoint
