// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length (little-endian), a JSON header, and tensor bytes
// without gaps. The reader is strict: what the format's own reader may accept (holes, overlaps,
// trailing bytes, duplicate keys) is an IntegrityError naming file and tensor. Nothing in such a
// file is executed.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/at_work.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace megalith::checkpoint {

struct SafetensorsEntry {
  std::string name;
  /// Absent for a type of the format that this program lacks (BOOL, I16, ...): such a tensor is
  /// checked like all others and can be skipped, but not read.
  std::optional<DType> dtype;
  Shape shape;
  int64_t begin = 0;  // byte offset in the file
  int64_t bytes = 0;
};

/// Limits of the reader; a file beyond them is refused.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr int kMaxTensorDims = kMaxDims;

/// Of which a long read is made.
inline constexpr int64_t kReadPartBytes = int64_t{16} << 20;

class SafetensorsFile {
 public:
  /// Opens and checks the whole header. UserError if the file is absent.
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Null when absent.
  const SafetensorsEntry* find(const std::string& name) const;
  const std::filesystem::path& path() const { return file_.path(); }
  /// Reads `size` bytes at `offset` of a tensor's bytes; `at_work` is called before every part.
  void read(const SafetensorsEntry& entry, int64_t offset, int64_t size, void* host,
            const AtWork& at_work = {}) const;

 private:
  File file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> index_;
};

/// The header of a file with these tensors. Orders them as the reference writer does (wide types
/// first, then by name), sets `begin` of each (its offset in the file), and returns the bytes that
/// precede the data.
std::string safetensors_header(std::vector<SafetensorsEntry>& entries);

/// "F32", "BF16", ...
std::string safetensors_dtype(DType dtype);

}  // namespace megalith::checkpoint
