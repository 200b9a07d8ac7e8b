// SPDX-License-Identifier: Apache-2.0
// Attention over bf16 heads (attention.h states its arithmetic): the sizes of its blocks. Scores
// are kept transposed, a row per key and a lane per query, so that maxima and sums of a query need
// no sum over lanes; a call with few new tokens over the key/value cache keeps a row per query
// instead. Neither changes a bit. Internal.
#pragma once

#include <algorithm>

#include "kernels/attention/attention_work.h"

namespace megalith::kernels {

/// Queries per chunk: the lanes of a row of scores, whatever the width of a vector.
inline constexpr int64_t kChunk = 32;
/// Keys whose scores backward holds at a time.
inline constexpr int64_t kTileRows = 12;
/// Keys, and queries, of backward's pairs of blocks.
inline constexpr int64_t kBackwardBlock = 128;
/// Blocks of keys that share one packed block of queries.
inline constexpr int64_t kBackwardKeyBlocks = 4;
/// Fewest new tokens of a sequence for which its queries get lanes over the key/value cache.
inline constexpr int64_t kFewestNewTokens = 16;

static_assert(kBackwardBlock == kBf16KeyBlock, "the sums of a bias's gradient go by it");
static_assert(kBf16KeyBlock % kKeyBlock == 0 && kKeyBlock % 16 == 0);

/// Words of two bf16 that hold n of them.
constexpr int64_t words_of(int64_t n) { return (n + 1) / 2; }

/// Query rows of one head in an item: many, because each item packs again the keys it sees, but few
/// enough that every thread gets some items.
inline int64_t bf16_item_rows(const ConstHeadsView& q, int64_t q_per_kv, int num_threads) {
  const int64_t all_rows = q.num_rows * q.num_heads;
  const int64_t rows =
      std::min<int64_t>(1536, all_rows / (8 * num_threads)) / q_per_kv / kChunk * kChunk;
  return std::max(kChunk, rows);
}

/// One thread's scratch in forward, in floats (or words). The state of a chunk is its transposed
/// queries, sums, maximum and norm.
struct Bf16ForwardScratch {
  int64_t size, words, width, chunks;
  Bf16ForwardScratch(int64_t head_size, int64_t q_per_kv, int64_t item_rows)
      : size(head_size),
        words(words_of(size)),
        width(padded_head_size(size)),
        chunks(q_per_kv * (item_rows / kChunk)) {}
  int64_t chunk() const { return (words + width + 2) * kChunk; }
  int64_t keys() const { return kBf16KeyBlock * words; }
  int64_t values() const { return kBf16KeyBlock / 2 * width; }
  int64_t scores() const { return kBf16KeyBlock * kChunk; }
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

}  // namespace megalith::kernels

/// Runs the copy of a function template over the steps of the bf16 chain (bf16_chain-inl.h) that is
/// for the device: as MEGA_CALL_SIMD of elementary/dispatch.h.
#define MEGA_CALL_BF16(exec, function, ...)                           \
  ((exec).device.target().isa == ::megalith::device::Isa::avx512_bf16 \
       ? N_AVX3::function<N_AVX3::DotPairs>(__VA_ARGS__)              \
   : (exec).device.target().isa == ::megalith::device::Isa::avx512    \
       ? N_AVX3::function<N_AVX3::FmaPairs>(__VA_ARGS__)              \
       : N_AVX2::function<N_AVX2::FmaPairs>(__VA_ARGS__))
