// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/failure.h"
#include "base/file.h"

namespace megalith {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, int error) {
  if (is_full_disk(error)) {
    throw SystemError("{} (mkdir): {}: not one more folder fits; make room", folder.string(),
                      std::strerror(error));
  }
  if (!is_mistake(error))
    throw SystemError("{} (mkdir): {}", folder.string(), std::strerror(error));
  throw UserError("{}: cannot be made a folder ({}); name another path", folder.string(),
                  error == EEXIST ? "a file or a link is in the way" : std::strerror(error));
}

}  // namespace

std::vector<fs::path> make_folders(const fs::path& folder) {
  std::error_code unseen;  // what keeps a path from being seen keeps mkdir from making it, and says
  std::vector<fs::path> missing;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, unseen); at = at.parent_path()) {
    missing.push_back(at);
    if (at == at.parent_path()) break;
  }
  if (missing.empty() && !fs::is_directory(folder, unseen)) refuse(folder, EEXIST);
  std::vector<fs::path> made;
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    if (::mkdir(at->c_str(), 0755) != 0) {
      const int error = errno;
      // Somebody else was quicker, or the path has a slash at its end.
      if (error == EEXIST && fs::is_directory(*at, unseen)) continue;
      refuse(folder, error);
    }
    sync_folder(at->parent_path());
    made.insert(made.begin(), *at);
  }
  return made;
}

void require_regular(const fs::path& file) {
  std::error_code error;
  const fs::file_type type = fs::status(file, error).type();
  // What cannot be seen cannot be opened either, and that says why.
  if (type == fs::file_type::none || type == fs::file_type::not_found ||
      type == fs::file_type::regular)
    return;
  throw IntegrityError("{}: is not a regular file, and nothing else is read from a folder",
                       file.string());
}

std::string read_regular(const fs::path& file, int64_t limit) {
  require_regular(file);
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (!error && bytes > static_cast<uint64_t>(limit)) {
    throw IntegrityError("{}: {} bytes, and what belongs there has {} at most", file.string(),
                         bytes, limit);
  }
  return read_file(file, limit);
}

}  // namespace megalith
