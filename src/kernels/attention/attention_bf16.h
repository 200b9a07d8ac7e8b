// SPDX-License-Identifier: Apache-2.0
// Attention for `fast` numerics over bf16 heads, on CPUs that multiply bf16 (AVX512-BF16) at a
// higher rate than f32. All products take bf16 and add up in
// f32; probabilities and score gradients are first rounded to bf16, as in flash attention on GPUs
// (Dao et al. 2022; Dao 2023); maxima, sums, exponentials and accumulators are f32. It streams like
// the exact code: scratch is linear in the sequence, and blocks that are wholly masked are skipped.
// Results do not depend on the thread count.
//
// On the causal diagonal, masked probabilities enter the products as zeros: a NaN or infinity in a
// masked key's value reaches the queries less than a chunk before it. Over the key/value cache
// (kv_cache.h) only calls with many new tokens in every sequence that has any (prompts) take this
// code; decoding takes the exact one. Internal.
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
/// Blocks of keys that share one packed block of queries.
inline constexpr int64_t kBackwardKeyBlocks = 4;

/// Words of two bf16 that hold n of them.
constexpr int64_t words_of(int64_t n) { return (n + 1) / 2; }

/// Fewest new tokens of a sequence for which its cached keys are worth packing.
inline constexpr int64_t kFewestNewTokens = 16;

/// Query rows of one head in an item: many, because each item packs again the keys it sees, but few
/// enough that every thread gets some items.
inline int64_t bf16_item_rows(const ConstHeadsView& q, int64_t q_per_kv, int num_threads) {
  const int64_t all_rows = q.num_rows * q.num_heads;
  const int64_t rows =
      std::min<int64_t>(768, all_rows / (8 * num_threads)) / q_per_kv / kChunk * kChunk;
  return std::max(kChunk, rows);
}

/// One thread's scratch in forward, in floats (or words): the state of a chunk is its transposed
/// queries, sums, maximum and norm.
struct Bf16ForwardScratch {
  int64_t size, words, width, chunks;
  Bf16ForwardScratch(int64_t head_size, int64_t q_per_kv, int64_t item_rows)
      : size(head_size),
        words(words_of(size)),
        width(padded_head_size(size)),
        chunks(q_per_kv * (item_rows / kChunk)) {}
  int64_t chunk() const { return (words + size + 2) * kChunk; }
  int64_t keys() const { return kForwardKeys * words; }
  int64_t values() const { return kForwardKeys / 2 * width; }
  int64_t scores() const { return kForwardKeys * kChunk; }
  int64_t floats() const {
    return chunks * chunk() + keys() + values() + scores() + scores() / 2 + scores() / 32;
  }
};

void attention_forward_bf16(Exec& exec, const AttentionForward& arguments);
void attention_backward_bf16(Exec& exec, const AttentionBackward& arguments);
void attention_cached_bf16(Exec& exec, const AttentionCached& arguments);
int64_t attention_forward_bf16_scratch(const Exec& exec, const AttentionForward& arguments);
int64_t attention_backward_bf16_scratch(const Exec& exec, const AttentionBackward& arguments);
int64_t attention_cached_bf16_scratch(const Exec& exec, const AttentionCached& arguments);
/// Why bf16 products cannot serve this call; empty if they can.
std::string_view refuse_bf16_products(const Exec& exec, DType dtype, float scale);

}  // namespace megalith::kernels
