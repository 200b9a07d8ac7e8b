// SPDX-License-Identifier: Apache-2.0
// Whole files: reading with a limit, and replacement that survives a power cut: nameless file in
// the same folder, fsync, name, fsync of the folder; with a temporary name where there are no
// nameless files. Temporary names begin with ".tmp-" so that a
// later start can find and remove what a crash left; the random part keeps two writers apart, and
// O_EXCL refuses a name that somebody planted.
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/failure.h"
#include "base/file.h"
#include "base/interrupted.h"

namespace megalith {
namespace {

constexpr int64_t kMostFromDevice = int64_t{64} << 20;

constexpr std::string_view kTemporary = ".tmp-";
constexpr size_t kRandomDigits = 16;

[[noreturn]] void refuse_name(const char* call, const std::filesystem::path& path, int error) {
  if (is_mistake(error))
    throw UserError("{}: {}; name another path", path.string(), std::strerror(error));
  throw SystemError("{} ({}): {}", path.string(), call, std::strerror(error));
}

/// A name that goes again unless it was given to the target.
class TemporaryName {
 public:
  explicit TemporaryName(std::filesystem::path path) : path_(std::move(path)) {}
  ~TemporaryName() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  void rename_to(const std::filesystem::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) refuse_name("rename", target, errno);
    path_.clear();
  }

 private:
  std::filesystem::path path_;
};

/// A second descriptor, so that the first can be closed, and the close be judged, before the file
/// has a name.
class Hold {
 public:
  explicit Hold(const File& file) : fd_(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0)) {
    if (fd_ < 0) throw SystemError("{} (dup): {}", file.path().string(), std::strerror(errno));
  }
  ~Hold() { ::close(fd_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  /// The error number.
  int link_to(const std::filesystem::path& path) const {
    const std::string self = own_descriptor(fd_);
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0
                                                                                            : errno;
  }

 private:
  int fd_;
};

/// Gives a nameless file the name `target`. A link replaces nothing: what is there is replaced by a
/// rename.
void name_durably(File& file, const std::filesystem::path& target) {
  const Hold hold(file);
  file.sync();
  file.close();
  int error = hold.link_to(target);
  if (error == 0) return;
  if (error != EEXIST) refuse_name("linkat", target, error);
  const std::filesystem::path temporary = temporary_beside(target);
  error = hold.link_to(temporary);
  if (error != 0) refuse_name("linkat", temporary, error);
  TemporaryName(temporary).rename_to(target);
}

}  // namespace

std::string read_file(const std::filesystem::path& path, int64_t limit) {
  File file(path, File::Mode::read);
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0)
    throw SystemError("{} (fstat): {}", path.string(), std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw UserError("{}: is a folder, not a file", path.string());
  // A device has no size and may have no end (/dev/zero).
  if (S_ISCHR(status.st_mode)) limit = std::min(limit, kMostFromDevice);
  const auto too_large = [&] {
    return UserError("{}: larger than the {} bytes allowed for it", path.string(), limit);
  };
  if (S_ISREG(status.st_mode) && status.st_size > limit) throw too_large();
  // Pipes and /proc files say size 0: read on until the end, in growing pieces.
  std::string content;
  size_t done = 0;
  size_t room = static_cast<size_t>(status.st_size) + 1;
  while (true) {
    content.resize(done + room);
    const size_t n = file.read(content.data() + done, room);
    done += n;
    if (static_cast<int64_t>(done) > limit) throw too_large();
    if (n < room) break;
    room = std::max<size_t>(done, 65536);
  }
  content.resize(done);
  return content;
}

std::filesystem::path temporary_beside(const std::filesystem::path& path, std::string_view mark) {
  uint64_t bits = 0;
  ssize_t got = -1;
  while (got != sizeof bits) {
    got = retry([&] { return getrandom(&bits, sizeof bits, 0); });
    if (got < 0) throw SystemError("getrandom: {}", std::strerror(errno));
  }
  return path.parent_path() / fmt::format("{}{}{:0{}x}", kTemporary, mark, bits, kRandomDigits);
}

bool is_temporary_name(std::string_view name, std::string_view mark) {
  if (!name.starts_with(kTemporary)) return false;
  name.remove_prefix(kTemporary.size());
  if (!name.starts_with(mark)) return false;
  name.remove_prefix(mark.size());
  return name.size() == kRandomDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void write_file_durable(const std::filesystem::path& path, std::string_view content) {
  write_file_durable(path, [&](File& file) { file.write(content); });
}

void write_file_durable(const std::filesystem::path& path, const std::function<void(File&)>& fill,
                        bool sync_folder_too) {
  if (std::optional<File> nameless = File::nameless(path)) {
    fill(*nameless);
    name_durably(*nameless, path);
  } else {
    const std::filesystem::path temporary = temporary_beside(path);
    File file(temporary, File::Mode::create_new);
    TemporaryName name(temporary);
    fill(file);
    file.sync();
    file.close();
    name.rename_to(path);
  }
  if (sync_folder_too) sync_folder(path.parent_path());
}

File open_scratch(const std::filesystem::path& beside) {
  if (std::optional<File> nameless = File::nameless(beside)) return std::move(*nameless);
  const std::filesystem::path path = temporary_beside(beside);
  File(path, File::Mode::create_new).close();
  File file(path, File::Mode::read_write);
  ::unlink(path.c_str());
  return file;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path name = folder.empty() ? std::filesystem::path(".") : folder;
  const int fd = retry([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) throw SystemError("{} (open): {}", name.string(), std::strerror(errno));
  const int status = retry([&] { return ::fsync(fd); });
  const int error = errno;
  ::close(fd);
  // Some file systems (FUSE, network) offer no fsync of folders; there the rename is as durable as
  // they make it.
  if (status != 0 && error != EINVAL && error != ENOTSUP)
    throw SystemError("{} (fsync): {}", name.string(), std::strerror(error));
}

}  // namespace megalith
