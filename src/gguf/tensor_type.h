// SPDX-License-Identifier: Apache-2.0
// How a GGUF file stores the elements of a tensor: a row is whole blocks of so many elements in so
// many bytes. The numbers are the format's.
#pragma once

#include <cstdint>
#include <string_view>

namespace megalith::gguf {

enum class TensorType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  f64 = 28,
  bf16 = 30,
};

/// Every type of the format, also those that nothing here can widen: their tensors are checked like
/// all others.
struct BlockLayout {
  TensorType type;
  std::string_view name;  // as the format spells it: "Q4_K"
  int64_t elements;       // of a block
  int64_t bytes;          // of a block
};

/// Null for a number that is no type.
const BlockLayout* find_block_layout(TensorType type);
/// Of a type that there is; a check fails for others.
const BlockLayout& block_layout(TensorType type);
inline std::string_view format_as(TensorType type) { return block_layout(type).name; }

}  // namespace megalith::gguf
