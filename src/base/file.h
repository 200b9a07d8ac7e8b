// SPDX-License-Identifier: Apache-2.0
// Files: whole reads and writes that survive EINTR and short counts, and durable replacement.
// Nothing is memory-mapped: touching a mapped file that has shrunk is a SIGBUS. Every failure
// throws, and the message names the path, the call and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace megalith {

/// An open descriptor, closed by the destructor (close() reports errors; the destructor cannot).
class File {
 public:
  enum class Mode { read, create_new, create_or_truncate, append, read_write };
  File() = default;
  File(const std::filesystem::path& path, Mode mode);
  /// A new file to read and write, in the folder of `path` but without a name: it disappears with
  /// its last descriptor, however the process ends. Messages call it `path`. Nothing where the file
  /// system or the kernel has no such files.
  static std::optional<File> nameless(const std::filesystem::path& path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  int64_t size() const;

  /// Reads up to `size` bytes at the file position; fewer only at the end of the file.
  size_t read(void* data, size_t size);
  /// Reads exactly `size` bytes at `offset`; IntegrityError if the file ends before.
  void read_at(void* data, size_t size, int64_t offset) const;
  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write_at(const void* data, size_t size, int64_t offset);
  void truncate(int64_t size);
  void sync();   // fsync
  void close();  // reports a failed close

 private:
  int fd_ = -1;
  std::filesystem::path path_;
};

/// The whole file as a string. UserError if it is absent, a folder, or larger than `limit` bytes.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 40);

/// The path under /proc through which an open file can be linked or opened again.
std::string own_descriptor(int fd);

/// Throws a SystemError for a write that failed with `left` bytes still to go; for a full disk the
/// message says how many.
[[noreturn]] void fail_write(const char* call, const std::filesystem::path& path, int error,
                             size_t left);

/// A fresh name in the folder of `path` for something temporary: ".tmp-", `mark`, and 16 random
/// hexadecimal digits. If a crash leaves it behind, a later start finds and removes it.
std::filesystem::path temporary_beside(const std::filesystem::path& path,
                                       std::string_view mark = "");
/// True for names of exactly that form; a name that merely begins like one is somebody else's.
bool is_temporary_name(std::string_view name, std::string_view mark = "");
/// Replaces `path` durably: writes a nameless file in the same folder, fsyncs it, gives it the
/// name, fsyncs the folder. Once this returns, the new content survives a power cut; until then the
/// old content is whole. A process that is killed leaves nothing behind, except a temporary file
/// where there are no nameless files, or between the two calls that replace an existing file.
void write_file_durable(const std::filesystem::path& path, std::string_view content);
/// The same, with a function that fills the file. With `sync_folder` false the last fsync is left
/// to the caller, who may be writing many files into one folder.
void write_file_durable(const std::filesystem::path& path, const std::function<void(File&)>& fill,
                        bool sync_folder = true);
/// An unnamed scratch file in the folder of `beside`, to read and write while it is open.
File open_scratch(const std::filesystem::path& beside);
/// fsync of a folder, so that renames and new entries in it are durable.
void sync_folder(const std::filesystem::path& folder);

/// Lower-case hexadecimal SHA-256 (OpenSSL), whole and in parts.
std::string sha256(std::span<const std::byte> bytes);
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(const void* data, size_t size);
  std::string finish();

 private:
  void* context_;
};

}  // namespace megalith
