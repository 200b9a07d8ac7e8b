// SPDX-License-Identifier: Apache-2.0
// A GGUF file, version 2 or 3, little-endian: keys with values, then a directory of tensors, then
// their bytes, each at a multiple of the alignment. Everything before the tensors' bytes is checked
// when the file is opened: every length against what is left of the file, before anything is
// allocated for it. What is wrong is an IntegrityError naming file and culprit; a file that is good
// but of a kind that is not read (an older version, big-endian) is a UserError. Nothing is
// executed.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "gguf/tensor_type.h"
#include "gguf/value.h"
#include "tensor/shape.h"

namespace megalith::gguf {

/// Limits of the reader; a file beyond them is refused. The format itself bounds names and
/// dimensions of tensors.
inline constexpr int64_t kMaxHeaderBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxKeys = 1 << 16;
inline constexpr int64_t kMaxKeyBytes = (1 << 16) - 1;
inline constexpr int64_t kMaxTensors = 1 << 18;
inline constexpr int64_t kMaxNameBytes = 64;
inline constexpr int kMaxTensorDims = 4;
inline constexpr int64_t kDefaultAlignment = 32;
inline constexpr int64_t kMaxAlignment = 1 << 16;

struct TensorEntry {
  std::string name;
  TensorType type;
  Shape shape;        // row major: the reverse of the file's
  int64_t begin = 0;  // byte offset in the file
  int64_t bytes = 0;
};

/// True if the file, if it is one, begins as a GGUF file.
bool is_gguf_file(const std::filesystem::path& path);

class Reader {
 public:
  /// UserError if the file is absent.
  explicit Reader(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return file_.path(); }
  int64_t alignment() const { return alignment_; }
  const Metadata& metadata() const { return metadata_; }
  /// In the order of their bytes.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Null when absent.
  const TensorEntry* find(std::string_view name) const;
  /// Reads `size` bytes at `offset` of a tensor's bytes. Several threads may call at once.
  void read(const TensorEntry& tensor, int64_t offset, int64_t size, void* host) const;

 private:
  File file_;
  int64_t alignment_ = kDefaultAlignment;
  Metadata metadata_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string_view, size_t> index_;
};

}  // namespace megalith::gguf
