// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file durably while its tensors stream through: one tensor in memory at a
// time at most, every byte hashed on its way. Byte for byte what the reference writer makes of the
// same tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "tensor/dtype.h"
#include "tensor/shard.h"

namespace megalith::checkpoint {

/// Which part of a logical tensor something is.
struct Cut {
  Shape whole;
  Shard shard;
};

/// A tensor to be written. `write` hands its bytes (row major), in any number of parts, to the
/// sink.
struct TensorContent {
  using Sink = FunctionRef<void(std::span<const std::byte>)>;
  std::string name;
  DType dtype;
  Shape shape;  // of what is written here
  std::function<void(Sink)> write;
  std::optional<Cut> cut = {};  // absent: this is all of it

  int64_t bytes() const { return shape.num_elements() * bytes_of(dtype); }
};

struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;
  std::map<std::string, std::string> tensor_sha256;  // by name
};

/// Replaces `path` durably, but for the folder's own fsync, which is the caller's.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorContent> tensors);

}  // namespace megalith::checkpoint
