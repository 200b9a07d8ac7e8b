// SPDX-License-Identifier: Apache-2.0
// The interposed calls. Each asks `fails` first, then does the real thing, then records.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "fault_state.h"

namespace megalith::faults {
namespace {

/// A path that nothing else has stands for the file.
int opened_nameless(std::unique_lock<std::mutex>& lock, int folder_fd, const char* path, int flags,
                    mode_t mode, const std::optional<std::string>& folder) {
  static const auto call = real<int (*)(int, const char*, int, ...)>("openat");
  State& s = state();
  if (folder && s.no_nameless_files) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if (fails(lock, Call::open, folder)) return -1;
  const int fd = call(folder_fd, path, flags, mode);
  if (fd < 0) return fd;
  s.open_files.erase(fd);
  if (!folder) return fd;
  const std::string name = *folder + "/ nameless " + std::to_string(++s.nameless);
  s.open_files[fd] = {name, true, true};
  add({Call::open, name, "", 0, "", true, false, true});
  return fd;
}

int opened(int folder_fd, const char* path, int flags, mode_t mode) {
  static const auto call = real<int (*)(int, const char*, int, ...)>("openat");
  std::unique_lock lock(state().mutex);
  const auto name = below(folder_fd, path);
  if ((flags & O_TMPFILE) == O_TMPFILE)
    return opened_nameless(lock, folder_fd, path, flags, mode, name);
  if (fails(lock, (flags & O_CREAT) != 0 ? Call::open : Call::look, name)) return -1;
  struct stat ignored {};
  const bool is_new = name && (flags & O_CREAT) != 0 && fstatat(folder_fd, path, &ignored, 0) != 0;
  const int fd = call(folder_fd, path, flags, mode);
  if (fd < 0) return fd;
  state().open_files.erase(fd);  // closedir() closes without telling us
  if (!name) return fd;
  state().open_files[fd] = {*name, (flags & O_ACCMODE) != O_RDONLY};
  if (is_new || (flags & O_TRUNC) != 0) add({Call::open, *name, "", 0, "", is_new});
  return fd;
}

/// Half of a write: an odd number of bytes, which a descriptor for direct writes takes only while
/// it is none.
ssize_t written_half(int fd, const void* data, size_t size, off_t offset, const std::string& name) {
  static const auto at = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags & ~O_DIRECT);
  const off_t begin = offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset;
  const ssize_t n = at(fd, data, size > 1 ? size / 2 | 1 : size, begin);
  fcntl(fd, F_SETFL, flags);
  if (n > 0 && offset < 0) lseek(fd, begin + n, SEEK_SET);
  if (n > 0)
    add({Call::write, name, "", begin,
         std::string(static_cast<const char*>(data), static_cast<size_t>(n))});
  return n;
}

/// write and pwrite; `offset` -1: at the file's position.
ssize_t written(int fd, const void* data, size_t size, off_t offset) {
  static const auto plain = real<ssize_t (*)(int, const void*, size_t)>("write");
  static const auto at = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  std::unique_lock lock(state().mutex);
  const auto name = below(fd);
  if (!name) {  // not ours: whoever writes to a pipe may wait
    lock.unlock();
    return offset < 0 ? plain(fd, data, size) : at(fd, data, size, offset);
  }
  if (fails(lock, Call::write, name)) {
    if (errno != 0) return -1;
    return written_half(fd, data, size, offset, *name);
  }
  const off_t begin = offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset;
  const ssize_t n = offset < 0 ? plain(fd, data, size) : at(fd, data, size, offset);
  if (n > 0)
    add({Call::write, *name, "", begin,
         std::string(static_cast<const char*>(data), static_cast<size_t>(n))});
  return n;
}

/// read and pread; not recorded, for they leave the disk as it is.
bool read_fails(int fd) {
  std::unique_lock lock(state().mutex);
  return fails(lock, Call::read, below(fd));
}

int synced(const char* name, int fd) {
  const auto call = real<int (*)(int)>(name);
  std::unique_lock lock(state().mutex);
  const auto path = below(fd);
  if (fails(lock, Call::sync, path)) return -1;
  const int status = call(fd);
  if (status == 0 && path) add({Call::sync, *path});
  return status;
}

int renamed(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) {
  static const auto call = real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  std::unique_lock lock(state().mutex);
  const auto name = below(from_fd, from);
  if (name && flags != 0 && state().plain_renames) {
    errno = EINVAL;
    return -1;
  }
  if (fails(lock, Call::rename, name)) return -1;
  const int status = call(from_fd, from, to_fd, to, flags);
  const auto target = below(to_fd, to);
  if (status == 0 && name && target)
    add({Call::rename, *name, *target, 0, "", false, (flags & RENAME_EXCHANGE) != 0});
  return status;
}

int linked(int from_fd, const char* from, int to_fd, const char* to, int flags) {
  static const auto call = real<int (*)(int, const char*, int, const char*, int)>("linkat");
  std::unique_lock lock(state().mutex);
  const std::string self = "/proc/self/fd/";
  const bool by_descriptor = std::string(from).starts_with(self);
  const auto found = state().open_files.find(by_descriptor ? std::atoi(from + self.size()) : -1);
  const auto name = found == state().open_files.end() || !found->second.nameless
                        ? std::nullopt
                        : std::optional(found->second.path);
  if (fails(lock, Call::rename, name)) return -1;
  const int status = call(from_fd, from, to_fd, to, flags);
  const auto target = below(to_fd, to);
  if (status == 0 && name && target) add({Call::rename, *name, *target, 0, "", false, false, true});
  return status;
}

int unlinked(int folder_fd, const char* path, int flags) {
  static const auto call = real<int (*)(int, const char*, int)>("unlinkat");
  std::unique_lock lock(state().mutex);
  const auto name = below(folder_fd, path);
  if (fails(lock, Call::unlink, name)) return -1;
  const int status = call(folder_fd, path, flags);
  if (status == 0 && name) add({Call::unlink, *name});
  return status;
}

}  // namespace
}  // namespace megalith::faults

using namespace megalith::faults;

// The C library's names, with those that fortified builds and large files use.
extern "C" {

static mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

#define MEGA_DEFINE_OPEN(name)                     \
  int name(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return opened(AT_FDCWD, path, flags, mode);    \
  }
#define MEGA_DEFINE_OPENAT(name)                       \
  int name(int fd, const char* path, int flags, ...) { \
    va_list arguments;                                 \
    va_start(arguments, flags);                        \
    const mode_t mode = mode_of(flags, arguments);     \
    va_end(arguments);                                 \
    return opened(fd, path, flags, mode);              \
  }
MEGA_DEFINE_OPEN(open)
MEGA_DEFINE_OPEN(open64)
MEGA_DEFINE_OPENAT(openat)
MEGA_DEFINE_OPENAT(openat64)
int __open_2(const char* path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int fd, const char* path, int flags) { return opened(fd, path, flags, 0); }
int __openat64_2(int fd, const char* path, int flags) { return opened(fd, path, flags, 0); }

ssize_t read(int fd, void* data, size_t size) {
  static const auto call = real<ssize_t (*)(int, void*, size_t)>("read");
  return read_fails(fd) ? -1 : call(fd, data, size);
}
ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  static const auto call = real<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  return read_fails(fd) ? -1 : call(fd, data, size, offset);
}
ssize_t pread64(int fd, void* data, size_t size, off64_t offset) {
  return pread(fd, data, size, offset);
}
ssize_t write(int fd, const void* data, size_t size) { return written(fd, data, size, -1); }
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return written(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return written(fd, data, size, offset);
}

int ftruncate(int fd, off_t size) noexcept {
  static const auto call = real<int (*)(int, off_t)>("ftruncate");
  std::unique_lock lock(state().mutex);
  const auto name = below(fd);
  if (fails(lock, Call::truncate, name)) return -1;
  const int status = call(fd, size);
  if (status == 0 && name) add({Call::truncate, *name, "", size});
  return status;
}
int ftruncate64(int fd, off64_t size) noexcept { return ftruncate(fd, size); }

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }

int close(int fd) {
  static const auto call = real<int (*)(int)>("close");
  std::unique_lock lock(state().mutex);
  const auto name = below(fd);
  const bool writable = name && state().open_files.at(fd).writable;
  state().open_files.erase(fd);
  const bool fail = writable && fails(lock, Call::close, name);
  const int error = errno;
  const int status = call(fd);  // the descriptor is free whatever close() says
  if (!fail) return status;
  errno = error;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  return renamed(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_fd, const char* from, int to_fd, const char* to) noexcept {
  return renamed(from_fd, from, to_fd, to, 0);
}
int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) noexcept {
  return renamed(from_fd, from, to_fd, to, flags);
}

int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept {
  return linked(from_fd, from, to_fd, to, flags);
}

/// A second descriptor of a file stands for the file too.
static int fcntl_of(int fd, int command, void* argument) noexcept {
  static const auto call = real<int (*)(int, int, void*)>("fcntl64");
  const int result = call(fd, command, argument);
  if (result < 0 || (command != F_DUPFD && command != F_DUPFD_CLOEXEC)) return result;
  const std::unique_lock lock(state().mutex);
  state().open_files.erase(result);
  const auto found = state().open_files.find(fd);
  if (found == state().open_files.end()) return result;
  auto again = found->second;
  again.writable = false;  // its close tells nothing
  state().open_files[result] = again;
  return result;
}
#define MEGA_DEFINE_FCNTL(name)                      \
  int name(int fd, int command, ...) {               \
    va_list arguments;                               \
    va_start(arguments, command);                    \
    void* const argument = va_arg(arguments, void*); \
    va_end(arguments);                               \
    return fcntl_of(fd, command, argument);          \
  }
MEGA_DEFINE_FCNTL(fcntl)
MEGA_DEFINE_FCNTL(fcntl64)

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto call = real<int (*)(const char*, mode_t)>("mkdir");
  std::unique_lock lock(state().mutex);
  const auto name = below(std::string(path));
  if (fails(lock, Call::mkdir, name)) return -1;
  const int status = call(path, mode);
  if (status == 0 && name) add({Call::mkdir, *name});
  return status;
}

int unlink(const char* path) noexcept { return unlinked(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlinked(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  struct stat status {};
  const bool folder = lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return unlinked(AT_FDCWD, path, folder ? AT_REMOVEDIR : 0);
}
int unlinkat(int fd, const char* path, int flags) noexcept { return unlinked(fd, path, flags); }

}  // extern "C"
