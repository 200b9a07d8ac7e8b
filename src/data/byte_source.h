// SPDX-License-Identifier: Apache-2.0
// A stream of bytes from a file or standard input, decompressed on the way. What is compressed is
// told by the first bytes (gzip and zstd magics are no valid UTF-8, so no text is mistaken), of a
// zstd file that begins with a frame to skip also by its name; a name that ends in .gz or .zst must
// keep its promise. Memory is bounded whatever a file unpacks to.
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
  /// Overwrites up to `size` bytes; returns how many, 0 only at the end. UserError if a compressed
  /// stream is damaged or cut short, naming the file.
  virtual size_t read(char* data, size_t size) = 0;
  /// Bytes in all, where that is known before they are read: of a plain file. Of a pipe, a device
  /// and a compressed stream nobody knows.
  virtual std::optional<int64_t> size() const { return std::nullopt; }
};

/// Opens a file, or standard input for "-". UserError if there is no such file.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

/// Throws what open_source would throw, without taking bytes from a pipe.
void check_source(const std::filesystem::path& path);

/// How messages name an input: the path, or "standard input".
std::string source_name(const std::filesystem::path& path);

}  // namespace megalith::data
