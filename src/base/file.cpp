// SPDX-License-Identifier: Apache-2.0
// POSIX files. Short counts are loops here (and in checkpoint/uncached_writer.cpp, for direct
// writes); the message of each failure names the path, the call and the reason. Descriptors are
// closed on exec.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "base/interrupted.h"

namespace megalith {
namespace {

// read() and write() refuse more than this at once on Linux.
constexpr size_t kLargestTransfer = 0x7ffff000;

[[noreturn]] void fail(const char* call, const std::filesystem::path& path, int error) {
  throw SystemError("{} ({}): {}", path.string(), call, std::strerror(error));
}

int flags_of(File::Mode mode) {
  switch (mode) {
    case File::Mode::read:
      return O_RDONLY;
    case File::Mode::create_new:
      return O_WRONLY | O_CREAT | O_EXCL;
    case File::Mode::create_or_truncate:
      return O_WRONLY | O_CREAT | O_TRUNC;
    case File::Mode::append:
      return O_WRONLY | O_CREAT | O_APPEND;
    case File::Mode::read_write:
      return O_RDWR | O_NOFOLLOW;  // a file of ours: no link stands in for it
  }
  throw InternalError("unknown file mode");
}

[[noreturn]] void fail_open(const std::filesystem::path& path, File::Mode mode, int error) {
  const bool makes = mode != File::Mode::read && mode != File::Mode::read_write;
  if (error == ENOENT && makes)
    throw UserError("{}: its folder does not exist; create it or name another path", path.string());
  if (error == ENOENT) throw UserError("{}: no such file; check the path", path.string());
  if (is_mistake(error))
    throw UserError("{}: {}; name another path", path.string(), std::strerror(error));
  if (is_full_disk(error)) {
    throw SystemError("{} (open): {}: not one more file fits; make room", path.string(),
                      std::strerror(error));
  }
  fail("open", path, error);
}

struct stat status_of(int fd, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail("fstat", path, errno);
  return status;
}

}  // namespace

std::string own_descriptor(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

void fail_write(const char* call, const std::filesystem::path& path, int error, size_t left) {
  if (!is_full_disk(error)) fail(call, path, error);
  throw SystemError("{} ({}): {}: {} bytes more do not fit; make room", path.string(), call,
                    std::strerror(error), left);
}

File::File(const std::filesystem::path& path, Mode mode) : path_(path) {
  fd_ = retry([&] { return ::open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0644); });
  if (fd_ < 0) fail_open(path, mode, errno);
}

std::optional<File> File::nameless(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  File file;
  file.path_ = path;
  file.fd_ = retry([&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0644); });
  if (file.fd_ >= 0) {
    // Its name comes through this entry.
    if (::access(own_descriptor(file.fd_).c_str(), F_OK) != 0) return std::nullopt;
    return file;
  }
  // No such files on this file system; a kernel that does not know them.
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) return std::nullopt;
  fail_open(path, Mode::create_new, errno);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

int64_t File::size() const { return status_of(fd_, path_).st_size; }

size_t File::read(void* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    char* to = static_cast<char*>(data) + done;
    const ssize_t n =
        retry([&] { return ::read(fd_, to, std::min(size - done, kLargestTransfer)); });
    if (n < 0 && errno == EISDIR) throw UserError("{}: is a folder, not a file", path_.string());
    if (n < 0) fail("read", path_, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

void File::read_at(void* data, size_t size, int64_t offset) const {
  size_t done = 0;
  while (done < size) {
    char* to = static_cast<char*>(data) + done;
    const size_t part = std::min(size - done, kLargestTransfer);
    const ssize_t n =
        retry([&] { return ::pread(fd_, to, part, offset + static_cast<int64_t>(done)); });
    if (n < 0) fail("pread", path_, errno);
    if (n == 0)
      throw IntegrityError(
          "{}: ends at byte {}, but {} bytes at {} belong to it; the file is cut off",
          path_.string(), offset + static_cast<int64_t>(done), size, offset);
    done += static_cast<size_t>(n);
  }
}

void File::write(const void* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const char* from = static_cast<const char*>(data) + done;
    const size_t part = std::min(size - done, kLargestTransfer);
    const ssize_t n = retry([&] { return ::write(fd_, from, part); });
    if (n < 0) fail_write("write", path_, errno, size - done);
    done += static_cast<size_t>(n);
  }
}

void File::write_at(const void* data, size_t size, int64_t offset) {
  size_t done = 0;
  while (done < size) {
    const char* from = static_cast<const char*>(data) + done;
    const size_t part = std::min(size - done, kLargestTransfer);
    const ssize_t n =
        retry([&] { return ::pwrite(fd_, from, part, offset + static_cast<int64_t>(done)); });
    if (n < 0) fail_write("pwrite", path_, errno, size - done);
    done += static_cast<size_t>(n);
  }
}

void File::truncate(int64_t size) {
  if (retry([&] { return ::ftruncate(fd_, size); }) != 0) fail("ftruncate", path_, errno);
}

void File::sync() {
  // Not repeated after any other error: the kernel may have dropped the pages, and a second fsync
  // would lie.
  if (retry([&] { return ::fsync(fd_); }) != 0) fail("fsync", path_, errno);
}

void File::close() {
  if (fd_ < 0) return;
  // Linux frees the descriptor even when close() reports EINTR: never repeated.
  const int status = ::close(std::exchange(fd_, -1));
  if (status != 0 && errno != EINTR) fail("close", path_, errno);
}

}  // namespace megalith
