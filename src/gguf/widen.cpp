// SPDX-License-Identifier: Apache-2.0
#include "gguf/widen.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "gguf/narrow_blocks.h"
#include "gguf/widen_blocks.h"
#include "tensor/dtype.h"

namespace megalith::gguf {
namespace {

template <typename T>
void widen_elements(const std::byte* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value{};
    std::memcpy(&value, from + static_cast<size_t>(i) * sizeof value, sizeof value);
    to[i] = to_f32(value);
  }
}

/// One block; null for a type that is not read.
using WidenBlock = void (*)(const std::byte* block, float* values);
WidenBlock block_function(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
      return widen_q4_0;
    case TensorType::q4_1:
      return widen_q4_1;
    case TensorType::q5_0:
      return widen_q5_0;
    case TensorType::q5_1:
      return widen_q5_1;
    case TensorType::q8_0:
      return widen_q8_0;
    case TensorType::q2_k:
      return widen_q2_k;
    case TensorType::q3_k:
      return widen_q3_k;
    case TensorType::q4_k:
      return widen_q4_k;
    case TensorType::q5_k:
      return widen_q5_k;
    case TensorType::q6_k:
      return widen_q6_k;
    default:
      return nullptr;
  }
}

bool is_plain(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

int64_t check_sizes(TensorType type, size_t bytes, size_t values) {
  const BlockLayout& layout = block_layout(type);
  const int64_t count = static_cast<int64_t>(bytes) / layout.bytes;
  MEGA_CHECK(static_cast<int64_t>(bytes) == count * layout.bytes &&
                 static_cast<int64_t>(values) == count * layout.elements,
             "{} bytes of {} for {} values", bytes, layout.name, values);
  return count;
}

template <typename T>
bool narrow_elements(std::span<const float> values, std::byte* to, T (*rounded)(float)) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = rounded(values[i]);
    if (std::isfinite(values[i]) && !std::isfinite(to_f32(value))) return false;
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
  return true;
}

bool narrow_each(TensorType type, std::span<const float> values, std::span<std::byte> blocks,
                 bool (*narrow_block)(const float*, std::byte*)) {
  const BlockLayout& layout = block_layout(type);
  for (size_t i = 0; i * static_cast<size_t>(layout.elements) < values.size(); ++i) {
    if (!narrow_block(values.data() + i * static_cast<size_t>(layout.elements),
                      blocks.data() + i * static_cast<size_t>(layout.bytes)))
      return false;
  }
  return true;
}

}  // namespace

bool can_widen(TensorType type) { return is_plain(type) || block_function(type) != nullptr; }

void widen(TensorType type, std::span<const std::byte> blocks, std::span<float> values) {
  const int64_t count = check_sizes(type, blocks.size(), values.size());
  switch (type) {
    case TensorType::f32:
      return widen_elements<float>(blocks.data(), values.data(), count);
    case TensorType::f16:
      return widen_elements<f16_t>(blocks.data(), values.data(), count);
    case TensorType::bf16:
      return widen_elements<bf16_t>(blocks.data(), values.data(), count);
    default:
      break;
  }
  const WidenBlock function = block_function(type);
  MEGA_CHECK(function != nullptr, "{} is not read", type);
  const BlockLayout& layout = block_layout(type);
  for (int64_t i = 0; i < count; ++i)
    function(blocks.data() + i * layout.bytes, values.data() + i * layout.elements);
}

bool can_narrow(TensorType type) {
  return is_plain(type) || type == TensorType::q8_0 || type == TensorType::q4_0 ||
         type == TensorType::q4_1;
}

bool narrow(TensorType type, std::span<const float> values, std::span<std::byte> blocks) {
  check_sizes(type, blocks.size(), values.size());
  switch (type) {
    case TensorType::f32:
      std::memcpy(blocks.data(), values.data(), values.size_bytes());
      return true;
    case TensorType::f16:
      return narrow_elements<f16_t>(values, blocks.data(), to_f16);
    case TensorType::bf16:
      return narrow_elements<bf16_t>(values, blocks.data(), to_bf16);
    case TensorType::q8_0:
      return narrow_each(type, values, blocks, narrow_q8_0);
    case TensorType::q4_0:
      return narrow_each(type, values, blocks, narrow_q4_0);
    case TensorType::q4_1:
      return narrow_each(type, values, blocks, narrow_q4_1);
    default:
      MEGA_CHECK(false, "{} is not written", type);
  }
}

}  // namespace megalith::gguf
