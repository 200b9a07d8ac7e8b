// SPDX-License-Identifier: Apache-2.0
// A stream of bytes from a file or standard input, decompressed on the way. Compression is
// recognised by the first bytes (the magics of gzip and zstd are not valid UTF-8, so no text is
// mistaken for them), or by the name for a zstd file that begins with a skippable frame. A file
// whose name ends in .gz or .zst must be what its name says. Memory is bounded, however much a file
// unpacks to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace megalith::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Overwrites up to `size` bytes; returns how many, 0 only at the end. UserError naming the file
  /// if a compressed stream is damaged or cut short.
  virtual size_t read(char* data, size_t size) = 0;
  /// The number of bytes in all, if it is known in advance: for a plain file, not for a pipe, a
  /// device or a compressed stream.
  virtual std::optional<int64_t> size() const { return std::nullopt; }
};

/// Opens a file, or standard input for "-". UserError if there is no such file.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

/// Throws what open_source would throw, without consuming bytes of a pipe.
void check_source(const std::filesystem::path& path);

/// How messages name an input: the path, or "standard input".
std::string source_name(const std::filesystem::path& path);

}  // namespace megalith::data
