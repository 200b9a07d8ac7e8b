// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file durably while its tensors stream through: at most one tensor is in
// memory, and every byte is hashed while it is in the processor's cache. Byte for byte the file
// that the reference writer makes of the same tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "checkpoint/at_work.h"
#include "tensor/dtype.h"
#include "tensor/shard.h"

namespace megalith::checkpoint {

/// Which part of a logical tensor this is.
struct Cut {
  Shape whole;
  Shard shard;
};

/// A tensor to be written. `write` passes its bytes (row major), in any number of parts, to the
/// sink.
struct TensorContent {
  using Sink = FunctionRef<void(std::span<const std::byte>)>;
  std::string name;
  DType dtype;
  Shape shape;  // of what is written here
  std::function<void(Sink)> write;
  std::optional<Cut> cut = {};  // absent: this is all of it

  int64_t bytes() const { return shape.num_elements() * bytes_of(dtype); }
  bool is_whole() const { return !cut || cut->shard.is_whole(cut->whole); }
};

struct WrittenTensor {
  std::string hash;    // of the bytes written here (FileHash)
  std::string sha256;  // of the tensor; empty where this is a part of it
};

struct WrittenFile {
  int64_t bytes = 0;
  std::string hash;                              // FileHash
  std::map<std::string, WrittenTensor> tensors;  // by name
};

/// Replaces `path` durably, except that the fsync of the folder is left to the caller.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorContent> tensors, const AtWork& at_work = {});

}  // namespace megalith::checkpoint
