// SPDX-License-Identifier: Apache-2.0
// Attention for `fast` numerics over bf16 heads on a CPU that multiplies bf16 (AVX512-BF16) at a
// higher rate than f32 (measured: matmul/product_class.h): all products take bf16 and add up in
// f32; probabilities and score gradients are rounded to bf16 first, as flash attention does on GPUs
// (Dao et al. 2022; Dao 2023); maxima, sums, exponentials and accumulators are f32. Streams like
// the exact code: scratch is linear in the sequence, blocks that are masked wholly are skipped.
// Results do not depend on the thread count. On the causal diagonal masked probabilities are zeros
// in the products: a NaN or infinity in a masked key's value reaches queries less than a chunk
// before it. The key/value cache (kv_cache.h) keeps exact arithmetic. Internal.
#pragma once

#include <algorithm>

#include "kernels/attention/attention_work.h"

namespace megalith::kernels {

/// Queries per chunk: the lanes of a row of scores.
inline constexpr int64_t kChunk = 32;
/// Rows of a full register tile: 24 sums, two vectors of the right side, one word of the left.
inline constexpr int64_t kTileRows = 12;
/// Keys per step of the online softmax in forward.
inline constexpr int64_t kForwardKeys = 192;
/// Keys, and queries, of backward's pairs of blocks.
inline constexpr int64_t kBackwardBlock = 128;
/// Blocks of keys that share a packed block of queries.
inline constexpr int64_t kBackwardKeyBlocks = 4;

/// Words of two bf16 that hold n of them.
constexpr int64_t words_of(int64_t n) { return (n + 1) / 2; }

void attention_forward_bf16(Exec& exec, const AttentionForward& arguments);
void attention_backward_bf16(Exec& exec, const AttentionBackward& arguments);

}  // namespace megalith::kernels
