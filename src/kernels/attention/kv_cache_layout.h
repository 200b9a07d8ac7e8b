// SPDX-License-Identifier: Apache-2.0
// Where a position of a sequence lies in a key/value cache. Internal.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/attention/attention_work.h"

namespace megalith::kernels {

inline constexpr int64_t kScaleBytes = sizeof(f16_t);

/// Elements that a key takes: those of bf16 come in pairs.
inline int64_t kv_key_elements(const KvCacheShape& shape) {
  return shape.dtype == DType::bf16 ? round_up<int64_t>(shape.head_size, 2) : shape.head_size;
}
inline constexpr int64_t kCodedChannels = 32;  // that share a scale
/// Scales of a position's key, and of its value; none but in i8.
inline int64_t kv_num_scales(const KvCacheShape& shape) {
  return shape.dtype == DType::i8 ? ceil_div(shape.head_size, kCodedChannels) : 0;
}
/// Elements from the block's start to the scales of its keys.
inline int64_t kv_scales_offset(const KvCacheShape& shape) {
  return kKeyBlock * (kv_key_elements(shape) + padded_head_size(shape.head_size));
}
/// Elements of the block of one key/value head.
inline int64_t kv_block_elements(const KvCacheShape& shape) {
  return kv_scales_offset(shape) + 2 * kKeyBlock * kv_num_scales(shape) * kScaleBytes;
}
/// Elements from the cache's start to the block of key/value head `head`.
inline int64_t kv_block_offset(const KvCacheShape& shape, int64_t block, int64_t head) {
  return (block * shape.num_kv_heads + head) * kv_block_elements(shape);
}
/// Elements from the start of rows `columns` long (in bf16 two of them alternate) to (row, column).
inline int64_t kv_offset(const KvCacheShape& shape, int64_t columns, int64_t row, int64_t column) {
  return shape.dtype == DType::bf16 ? row / 2 * 2 * columns + 2 * column + row % 2
                                    : row * columns + column;
}
/// Elements from the block's start to its values.
inline int64_t kv_values_offset(const KvCacheShape& shape) {
  return kKeyBlock * kv_key_elements(shape);
}
/// From there to element d of the key, and of the value, at `position` of the block.
inline int64_t kv_key_offset(const KvCacheShape& shape, int64_t position, int64_t d) {
  return kv_offset(shape, kKeyBlock, d, position % kKeyBlock);
}
inline int64_t kv_value_offset(const KvCacheShape& shape, int64_t position, int64_t d) {
  return kv_values_offset(shape) +
         kv_offset(shape, padded_head_size(shape.head_size), position % kKeyBlock, d);
}
/// Bytes from the block's start to the scale of channel d of the key, and of the value.
inline int64_t kv_key_scale(const KvCacheShape& shape, int64_t position, int64_t d) {
  return kv_scales_offset(shape) +
         (d / kCodedChannels * kKeyBlock + position % kKeyBlock) * kScaleBytes;
}
inline int64_t kv_value_scale(const KvCacheShape& shape, int64_t position, int64_t d) {
  const int64_t scales = kv_num_scales(shape);
  return kv_scales_offset(shape) +
         (kKeyBlock * scales + position % kKeyBlock * scales + d / kCodedChannels) * kScaleBytes;
}
/// Bytes that a position of a head is read and written with.
inline int64_t kv_position_bytes(const KvCacheShape& shape) {
  return 2 * (shape.head_size * bytes_of(shape.dtype) + kv_num_scales(shape) * kScaleBytes);
}

/// The codes of up to kCodedChannels numbers, and their scale as f16.
inline f16_t code_channels(std::span<const float> x, int8_t* codes) {
  float largest = 0;
  bool is_finite = true;
  for (const float value : x) {
    largest = std::max(largest, std::fabs(value));
    is_finite = is_finite && std::isfinite(value);
  }
  const float scale = is_finite ? largest / 127.0F : 0.0F, inverse = 1.0F / scale;
  const bool is_zero = scale == 0 || std::isinf(inverse);
  for (size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<int8_t>(is_zero ? 0.0F : std::round(x[i] * inverse));
  return to_f16(is_finite ? scale : std::numeric_limits<float>::quiet_NaN());
}

/// What the queries of a sequence see, by positions; the keys are those present after the call.
inline Sight sight_of(const AttentionCached& a, int64_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  const int64_t end =
      a.sequences.past[s] + a.sequences.cu_seqlens[s + 1] - a.sequences.cu_seqlens[s];
  return {end, end, a.window_left < 0 ? kUnlimited : a.window_left, 0};
}
/// The block that holds `position` of a sequence (reads the table on the host).
inline int64_t kv_block(const CachedSequences& sequences, int64_t sequence, int64_t position) {
  return sequences.block_table_SM.row<int32_t>(sequence)[position / kKeyBlock];
}
/// The sequence of row t, found from the front.
inline int64_t sequence_of_row(const CachedSequences& sequences, int64_t t) {
  size_t s = 0;
  while (sequences.cu_seqlens[s + 1] <= t) ++s;
  return static_cast<int64_t>(s);
}

}  // namespace megalith::kernels
