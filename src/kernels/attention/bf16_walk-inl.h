// SPDX-License-Identifier: Apache-2.0
// An item of bf16 attention's forward pass: its chunks of queries over the blocks of keys that they
// see, and what comes out. Included once per instruction set.

#if defined(MEGA_ATTENTION_BF16_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_WALK_INL_H_
#undef MEGA_ATTENTION_BF16_WALK_INL_H_
#else
#define MEGA_ATTENTION_BF16_WALK_INL_H_
#endif

#include "kernels/attention/bf16_forward-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

HWY_INLINE Chunk chunk_of(const Bf16ForwardScratch& layout, const AttentionItem& item,
                          int64_t q_per_kv, float* chunks, int64_t number) {
  const int64_t per_head = (item.end - item.begin + kChunk - 1) / kChunk;
  const int64_t query = item.begin + number % per_head * kChunk;
  float* own = chunks + number * layout.chunk();
  float* sum = own + layout.words * kChunk;
  float* max = sum + layout.width * kChunk;
  return {reinterpret_cast<uint32_t*>(own),
          sum,
          max,
          max + kChunk,
          item.group * q_per_kv + number / per_head,
          query,
          std::min(kChunk, item.end - query)};
}

/// The part of the block of `keys` keys at first_key that a chunk's queries see; empty if none.
HWY_INLINE BlockOfKeys block_of(const Sight& sight, const Chunk& chunk, int64_t first_key,
                                int64_t keys) {
  const Range queries{chunk.query, chunk.query + chunk.queries};
  const Range seen = part_of_block(sight.keys_of(queries), first_key, keys);
  const int64_t begin = block_start(seen.begin, 16), end = round_up<int64_t>(seen.end, 16);
  const Range all = part_of_block(sight.seen_by_all(queries), first_key, keys);
  Range clear{round_up<int64_t>(all.begin, 16), block_start(all.end, 16)};
  if (clear.empty()) clear = {end, end};
  return {first_key, begin, seen.end, clear};
}

inline int64_t chunks_of(const Walk& walk, const AttentionItem& item) {
  return walk.q_per_kv * ((item.end - item.begin + kChunk - 1) / kChunk);
}

/// All chunks of an item, whose rows are counted by their positions in the sequence, against blocks
/// of keys: pack(first_key, keys) says where their words are; before that foresee(first_key, part)
/// may prefetch the block part by part (all at once, it would wait for the memory).
template <class Steps, class Pack, class Foresee>
HWY_INLINE void walk_keys(const Walk& walk, const Bf16ForwardScratch& layout,
                          const AttentionItem& item, const Bf16ForwardBlocks& blocks,
                          const Pack& pack, const Foresee& foresee) {
  const int64_t chunks = chunks_of(walk, item);
  const auto chunk_at = [&](int64_t c) {
    return chunk_of(layout, item, walk.q_per_kv, blocks.chunks, c);
  };
  for (int64_t c = 0; c < chunks; ++c) {
    const Chunk chunk = chunk_at(c), next = chunk_at(std::min(c + 1, chunks - 1));
    prefetch_rows(walk.q, walk.row + next.query, next.head, next.queries);
    pack_transposed(walk.q, walk.row + chunk.query, chunk.head, chunk.queries, chunk.q);
    std::fill(chunk.sum, chunk.max, 0.0f);
    std::fill(chunk.max, chunk.max + kChunk, -INFINITY);
    // Without keys: y = 0 / 1, lse = -inf + log 1.
    std::fill(chunk.norm, chunk.norm + kChunk, walk.sight.keys == 0 ? 1.0f : 0.0f);
  }
  const Range known = walk.sight.keys_of(Range{item.begin, item.end});
  for (int64_t first_key = block_start(known.begin, kBf16KeyBlock); first_key < known.end;
       first_key += kBf16KeyBlock) {
    const int64_t keys = std::min(kBf16KeyBlock, known.end - first_key);
    const PackedKeys packed = pack(first_key, keys);
    for (int64_t c = 0; c < chunks; ++c) {
      const Chunk chunk = chunk_at(c);
      const Range part{c * kBf16KeyBlock / chunks, (c + 1) * kBf16KeyBlock / chunks};
      foresee(first_key + kBf16KeyBlock, part);
      const BlockOfKeys block = block_of(walk.sight, chunk, first_key, keys);
      if (block.end > 0) attend<Steps>(walk, layout, blocks, packed, chunk, block);
    }
  }
}

/// y and lse of a chunk; lse takes the place of the maximum.
HWY_INLINE void finish_chunk(const Walk& walk, const Bf16ForwardScratch& layout,
                             const Chunk& chunk) {
  for (int64_t i = 0; i < chunk.queries; ++i) {
    prefetch_output(walk.y, walk.row + chunk.query + i, chunk.head);
  }
  write_lanes(
      chunk.sum, layout.size, chunk.queries,
      [&](FloatVec sum, int64_t lane) HWY_ATTR {
        // + 0 makes a negative zero positive.
        return hn::Add(hn::Div(sum, load(chunk.norm + lane)), hn::Zero(FloatTag()));
      },
      [&](int64_t lane) {
        return reinterpret_cast<bf16_t*>(walk.y.at(walk.row + chunk.query + lane, chunk.head));
      });
  for (int64_t lane = 0; lane < kChunk; lane += kFloatLanes) {
    const FloatVec log = elementary::log<SimdOps>(load(chunk.norm + lane));
    store(hn::Add(load(chunk.max + lane), log), chunk.max + lane);
  }
  if (walk.lse_NT.absent()) return;
  float* lse = walk.lse_NT.row<float>(chunk.head) + walk.row + chunk.query;
  std::copy(chunk.max, chunk.max + chunk.queries, lse);
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_WALK_INL_H_
