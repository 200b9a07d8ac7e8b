// SPDX-License-Identifier: Apache-2.0
// Writes a GGUF file, version 3, durably, while its tensors stream through: no more of them is in
// memory than one hands on at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "gguf/tensor_type.h"
#include "gguf/value.h"
#include "tensor/shape.h"

namespace megalith::gguf {

/// A tensor to be written. `write` passes its bytes, in any number of parts, to the sink.
struct TensorContent {
  using Sink = FunctionRef<void(std::span<const std::byte>)>;
  std::string name;
  TensorType type;
  Shape shape;  // row major; rows are whole blocks of the type
  std::function<void(Sink)> write;

  int64_t bytes() const;
};

/// In this order: readers look for general.architecture first.
using OrderedMetadata = std::vector<std::pair<std::string, Value>>;

/// Replaces `path`, whole or not at all. Keys and names must differ and be as the reader wants
/// them; a check fails otherwise.
void write_file(const std::filesystem::path& path, const OrderedMetadata& metadata,
                std::span<const TensorContent> tensors);

}  // namespace megalith::gguf
