// SPDX-License-Identifier: Apache-2.0
// Keys and values kept between calls of one attention layer, in blocks of kKeyBlock positions that
// a table assigns to sequences (paging: Kwon et al. 2023), and attention over them. For each
// key/value head a block holds
//   [D, 64]    the keys, transposed, so that the scores of 64 keys are one run of vector FMAs
//   [64, Dp]   the values, Dp = D rounded up to 16
// In bf16 two rows of these alternate, element by element: the operands of the bf16 chain. (An odd
// D has a row of zeros more.) In i8 they are codes, and behind them stand f16 scales of blocks of
// 32 channels of a position: of keys [ceil(D / 32), 64], of values [64, ceil(D / 32)]; rounded as
// q8_0 is (tensor/blocks.h), a block with a number that is not finite is not a number. A token
// attends to the cached positions up to its own, or to a window of them. The arithmetic is that of
// attention_forward over the whole sequence, bit for bit for finite numbers, if the cache's dtype
// is that of the heads; else that of f32 heads over what the cache holds.
#pragma once

#include "kernels/attention/attention.h"

namespace megalith::kernels {

struct KvCacheShape {
  DType dtype = DType::f32;  // f32, bf16, f16 or i8 (f64 for the reference)
  int64_t num_kv_heads = 0;
  int64_t head_size = 0;
  int64_t num_blocks = 0;
};
/// Elements and bytes of the storage of one layer; pure functions.
int64_t kv_cache_elements(const KvCacheShape& shape);
int64_t kv_cache_bytes(const KvCacheShape& shape);
/// Blocks that `positions` positions of one sequence need.
constexpr int64_t kv_cache_blocks(int64_t positions) {
  return (positions + kKeyBlock - 1) / kKeyBlock;
}

/// Which rows of the call belong to which sequence, and where that sequence's blocks are.
struct CachedSequences {
  std::span<const int32_t> cu_seqlens;  // host [sequences + 1]: new tokens of sequence s
  std::span<const int32_t> past;        // host [sequences]: positions cached before this call
  ConstView cu_seqlens_device;          // i32, the same two for kinds that cannot read host memory
  ConstView past_device;
  // i32 [sequences, M]: position p of sequence s is in block block_table[s, p / 64].
  ConstView block_table_SM;
};

/// Writes the rows of k and v at positions past[s] ... of their sequences, rounded to the cache's
/// dtype. Local; ready as of a later ticket.
struct KvCacheAppend {
  KvCacheShape shape;
  View cache;  // shape.dtype, kv_cache_elements(shape) long
  CachedSequences sequences;
  ConstHeadsView k_TKD;
  ConstHeadsView v_TKD;
};
void kv_cache_append(Exec& exec, const KvCacheAppend& arguments);

/// y of the new tokens, each attending to positions up to its own; call kv_cache_append for them
/// first. One new token per sequence is decoding, many are (chunked) prefill. Local; ready as of a
/// later ticket.
struct AttentionCached {
  KvCacheShape shape;
  ConstView cache;
  CachedSequences sequences;
  float scale = 1;
  ConstHeadsView q_TND;
  HeadsView y_TND;  // overwritten; must not overlap q
  // As AttentionSequences::window_left (the cached form is causal). A token at position i does not
  // see what lies before i - window_left. Blocks wholly before the window of a sequence's first new
  // token are never touched, and neither are their entries of the table: they may have been freed.
  int64_t window_left = -1;
  float softcap = 0;  // as AttentionForward::softcap
  AttentionBias bias = {};
};
void attention_cached(Exec& exec, const AttentionCached& arguments);

}  // namespace megalith::kernels
