// SPDX-License-Identifier: Apache-2.0
// Streaming forward over bf16 heads (attention_bf16.h): items of up to 1536 query rows (all heads
// of a group), cut into chunks of 32 queries, walk over blocks of keys. With `probabilities` they
// walk once more, when each query's log-sum-exp is known.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_forward_bf16.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/bf16_walk-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

HWY_INLINE void prefetch_part(const AttentionForward& a, const AttentionItem& item,
                              const SequenceRows& sequence, int64_t first_key, Range part) {
  const int64_t keys = std::min(sequence.sight.keys - first_key, part.end) - part.begin;
  if (keys <= 0) return;
  prefetch_rows(a.k_TKD, sequence.key_row + first_key + part.begin, item.group, keys);
  prefetch_rows(a.v_TKD, sequence.key_row + first_key + part.begin, item.group, keys);
}

/// Packs the block at first_key, of which `keys` keys are seen.
HWY_INLINE PackedKeys pack_block(const AttentionForward& a, const Bf16ForwardScratch& layout,
                                 const AttentionItem& item, const SequenceRows& sequence,
                                 const Bf16ForwardBlocks& blocks, int64_t first_key, int64_t keys) {
  const int64_t row = sequence.key_row + first_key;
  keys = std::min(sequence.sight.keys - first_key, round_up<int64_t>(keys, 2));
  pack_word_rows(a.k_TKD, row, item.group, keys, blocks.keys);
  pack_row_pairs(a.v_TKD, row, item.group, keys, layout.width, blocks.values);
  return {{blocks.keys}, {blocks.values}, kBf16KeyBlock, layout.words, 1};
}

/// p of the keys of one block for each query of a finished chunk; `base`: where the sequence's
/// probabilities begin.
template <class Steps>
HWY_INLINE void write_block(const AttentionForward& a, const Walk& walk,
                            const Bf16ForwardScratch& layout, const Bf16ForwardBlocks& blocks,
                            const PackedKeys& packed, const Chunk& chunk, int64_t first_key,
                            int64_t base) {
  const int64_t keys = std::min(kBf16KeyBlock, walk.sight.keys - first_key);
  const BlockOfKeys block{first_key, 0, keys, {}};
  chunk_scores<Steps>(layout, packed, chunk, block, walk.rule, blocks.scores);
  const SeenKeys seen_keys(walk.sight, chunk.query, chunk.queries);
  bf16_t* out = a.probabilities.as<bf16_t>() + base +
                (chunk.head * walk.sight.queries + chunk.query) * walk.sight.keys + first_key;
  for (int64_t lane = 0; lane < kChunk; lane += kFloatLanes) {
    const SeenLanes seen(seen_keys, lane);
    const FloatVec lse = load(chunk.max + lane);
    for (int64_t j = 0; j < keys; ++j) {
      float* s = blocks.scores + j * kChunk + lane;
      const FloatVec p = elementary::exp<SimdOps>(hn::Sub(load(s), lse));
      store(hn::IfThenElseZero(seen.see(first_key + j), p), s);
    }
  }
  write_lanes(
      blocks.scores, keys, chunk.queries, [](FloatVec p, int64_t) HWY_ATTR { return p; },
      [&](int64_t lane) { return out + lane * walk.sight.keys; });
}

}  // namespace

template <class Steps>
void run_forward_bf16(const AttentionForward& a, const ScoreRule& rule,
                      const Bf16ForwardScratch& layout, const AttentionItem& item, float* scratch) {
  const SequenceRows sequence = rows_of(a.sequences, item.sequence);
  const Bf16ForwardBlocks blocks(layout, scratch);
  const Walk walk{a.q_TND,
                  a.y_TND,
                  a.lse_NT,
                  a.q_TND.num_heads / a.k_TKD.num_heads,
                  sequence.query_row,
                  sequence.sight,
                  rule,
                  SequenceDropout(a.sequences, a.dropout, item.sequence)};
  const auto pack = [&](int64_t first_key, int64_t keys) HWY_ATTR {
    return pack_block(a, layout, item, sequence, blocks, first_key, keys);
  };
  prefetch_part(a, item, sequence,
                block_start(sequence.sight.keys_of(item.begin).begin, kBf16KeyBlock),
                {0, kBf16KeyBlock});
  walk_keys<Steps>(walk, layout, item, blocks, pack, [&](int64_t first_key, Range part) HWY_ATTR {
    prefetch_part(a, item, sequence, first_key, part);
  });
  const int64_t chunks = chunks_of(walk, item);
  for (int64_t c = 0; c < chunks; ++c) {
    finish_chunk(walk, layout, chunk_of(layout, item, walk.q_per_kv, blocks.chunks, c));
  }
  if (a.probabilities.absent()) return;
  const int64_t base = probabilities_offset(a.sequences, item.sequence, a.q_TND.num_heads);
  for (int64_t first_key = 0; first_key < sequence.sight.keys; first_key += kBf16KeyBlock) {
    const PackedKeys packed = pack(first_key, kBf16KeyBlock);
    for (int64_t c = 0; c < chunks; ++c) {
      const Chunk chunk = chunk_of(layout, item, walk.q_per_kv, blocks.chunks, c);
      write_block<Steps>(a, walk, layout, blocks, packed, chunk, first_key, base);
    }
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_forward_bf16_scratch(const Exec& exec, const AttentionForward& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  return distance_bias_bytes(a.bias, longest_sequence(a)) +
         items_scratch_bytes(exec, Bf16ForwardScratch(a.q_TND.head_size, q_per_kv, step).floats());
}

void attention_forward_bf16(Exec& exec, const AttentionForward& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t step = bf16_item_rows(a.q_TND, q_per_kv, exec.device.target().num_threads);
  const Bf16ForwardScratch layout(a.q_TND.head_size, q_per_kv, step);
  const std::vector<AttentionItem> items = forward_items(a.sequences, a.k_TKD.num_heads, step);
  const ScoreRule rule(a.scale, a.softcap, spread_bias(a.bias, longest_sequence(a), exec.scratch));
  run_items(exec, items, layout.floats(),
            exec.scratch + distance_bias_bytes(a.bias, longest_sequence(a)),
            [&](const AttentionItem& item, float* scratch) {
              MEGA_CALL_BF16(exec, attention::run_forward_bf16, a, rule, layout, item, scratch);
            });
}

}  // namespace megalith::kernels
#endif
