// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 heads over a cache of bf16 (attention_bf16.h). The cache's blocks are operands
// as they are. Many new tokens are chunks of training's forward, few are rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/kv_cache_bf16.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/bf16_rows-inl.h"
#include "kernels/attention/bf16_walk-inl.h"
#include "kernels/attention/kv_cache_layout.h"

#ifndef MEGA_KV_CACHE_BF16_SCRATCH
#define MEGA_KV_CACHE_BF16_SCRATCH
namespace megalith::kernels {
namespace {

/// One thread's scratch, in floats: the last pair of values, then what an item of chunks or one of
/// rows needs.
struct Bf16CachedScratch {
  Bf16ForwardScratch chunks;
  int64_t step;  // tokens of an item
  int64_t rows;  // of an item of few tokens

  Bf16CachedScratch(const AttentionCached& a, int num_threads)
      : Bf16CachedScratch(a, a.q_TND.num_heads / a.shape.num_kv_heads, num_threads) {}
  int64_t row() const { return chunks.words + chunks.width + 2; }
  int64_t floats() const {
    return chunks.width + std::max(chunks.floats(), rows * row() + kFewRowsFloats);
  }

 private:
  static constexpr int64_t kFewRowsFloats = 24 * kBf16KeyBlock * 3 / 2;
  Bf16CachedScratch(const AttentionCached& a, int64_t q_per_kv, int num_threads)
      : chunks(a.shape.head_size, q_per_kv, bf16_item_rows(a.q_TND, q_per_kv, num_threads)),
        step(bf16_item_rows(a.q_TND, q_per_kv, num_threads)),
        rows(q_per_kv * kFewestNewTokens) {}
};

}  // namespace
}  // namespace megalith::kernels
#endif  // MEGA_KV_CACHE_BF16_SCRATCH

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

/// Where an item finds its blocks.
struct CachedBlocks {
  const AttentionCached& a;
  const ScoreRule& rule;
  const AttentionItem& item;
  Range known;  // positions that some row sees
  uint32_t* odd_values;

  const uint32_t* at(int64_t position, int64_t group) const {
    const int64_t block = kv_block(a.sequences, item.sequence, position);
    return reinterpret_cast<const uint32_t*>(a.cache.as<bf16_t>() +
                                             kv_block_offset(a.shape, block, group));
  }
  /// Those of the keys [first_key, first_key + keys); what lies before known.begin may be gone.
  PackedKeys of(int64_t first_key, int64_t keys) const {
    PackedKeys packed{{}, {}, kKeyBlock, 1, kKeyBlock};
    const int64_t values = kv_values_offset(a.shape) / 2;
    const int64_t first = std::max(first_key, block_start(known.begin));
    for (int64_t j = first; j < first_key + keys; j += kKeyBlock) {
      const int64_t part = (j - first_key) / kKeyBlock;
      packed.keys_of[part] = at(j, item.group);
      packed.values_of[part] = packed.keys_of[part] + values;
    }
    const int64_t last = first_key + keys - 1;
    if (last % 2 == 1 || last + 1 < sight_of(a, item.sequence).keys) return packed;
    // The last position has no neighbour yet: in its place the cache holds anything.
    const int64_t width = padded_head_size(a.shape.head_size);
    const uint32_t* pair = at(last, item.group) + values + last % kKeyBlock / 2 * width;
    for (int64_t d = 0; d < width; ++d) odd_values[d] = pair[d] & 0xffffu;
    packed.odd_key = last - first_key;
    packed.odd_values = odd_values;
    return packed;
  }
  /// Words from the block of `position` to what is read after it, which hardware does not foresee:
  /// the next block, or after the last one the next head's first.
  int64_t ahead(int64_t position) const {
    const uint32_t* here = at(position, item.group);
    if (position + kKeyBlock < known.end) return at(position + kKeyBlock, item.group) - here;
    const bool more = item.group + 1 < a.shape.num_kv_heads;
    return more ? at(known.begin, item.group + 1) - here : 0;
  }
};

template <class Steps>
void cached_chunks(const CachedBlocks& cached, const Bf16ForwardScratch& layout, int64_t row,
                   float* scratch) {
  const AttentionCached& a = cached.a;
  const Bf16ForwardBlocks blocks(layout, scratch);
  const Walk walk{a.q_TND,     a.y_TND,
                  View(),      a.q_TND.num_heads / a.shape.num_kv_heads,
                  row,         sight_of(a, cached.item.sequence),
                  cached.rule, SequenceDropout()};
  walk_keys<Steps>(
      walk, layout, cached.item, blocks,
      [&](int64_t first_key, int64_t keys) { return cached.of(first_key, keys); },
      [](int64_t, Range) {});
  for (int64_t c = 0; c < chunks_of(walk, cached.item); ++c) {
    finish_chunk(walk, layout, chunk_of(layout, cached.item, walk.q_per_kv, blocks.chunks, c));
  }
}

/// The rows [r, r + count) of the item, token by token of each head, and what they see of a block.
HWY_INLINE FewRows few_rows(const CachedBlocks& cached, const FewRows& all, int64_t r,
                            int64_t count, int64_t first_key, int64_t keys) {
  const int64_t tokens = cached.item.end - cached.item.begin;
  const Sight sight = sight_of(cached.a, cached.item.sequence);
  const int64_t first_head =
      cached.item.group * (cached.a.q_TND.num_heads / cached.a.shape.num_kv_heads);
  FewRows rows{all.q + r * all.words, all.words, all.state.at(r), count, {}, {}, {}, {}, {}};
  Range some{keys, 0};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t query = cached.item.begin + (r + i) % tokens;
    const Range seen = part_of_block(sight.keys_of(query), first_key, keys);
    rows.begin[i] = static_cast<int32_t>(seen.begin);
    rows.limit[i] = static_cast<int32_t>(seen.end);
    rows.head[i] = first_head + (r + i) / tokens;
    rows.distance[i] = first_key - query;
    if (!seen.empty()) some = {std::min(some.begin, seen.begin), std::max(some.end, seen.end)};
  }
  rows.some = {block_start(some.begin, 16), round_up<int64_t>(some.end, 16)};
  return rows;
}

template <class Steps>
void cached_rows(const CachedBlocks& cached, const Bf16ForwardScratch& layout, int64_t row,
                 float* scratch) {
  const AttentionCached& a = cached.a;
  const AttentionItem& item = cached.item;
  const int64_t tokens = item.end - item.begin, words = layout.words, width = layout.width;
  const int64_t q_per_kv = a.q_TND.num_heads / a.shape.num_kv_heads, num_rows = q_per_kv * tokens;
  uint32_t* q = reinterpret_cast<uint32_t*>(scratch);
  float* sum = scratch + num_rows * words;
  float* max = sum + num_rows * width;
  const FewRowsBlocks blocks(max + 2 * num_rows);
  const FewRows all{q,        words, {scratch, sum, max, max + num_rows, layout.size, width},
                    num_rows, {},    {},
                    {},       {},    {}};
  for (int64_t h = 0; h < q_per_kv; ++h) {
    pack_word_rows(a.q_TND, row + item.begin, item.group * q_per_kv + h, tokens,
                   q + h * tokens * words);
  }
  start_rows(all.state, num_rows);
  for (int64_t first_key = block_start(cached.known.begin, kBf16KeyBlock);
       first_key < cached.known.end; first_key += kBf16KeyBlock) {
    const int64_t keys = std::min(kBf16KeyBlock, cached.known.end - first_key);
    const PackedKeys packed = cached.of(first_key, keys);
    int64_t ahead[PackedKeys::kParts] = {};
    for (int64_t part = 0; part * kKeyBlock < keys; ++part) {
      if (packed.keys_of[part] != nullptr) {
        ahead[part] = cached.ahead(first_key + part * kKeyBlock);
      }
    }
    for (int64_t r = 0; r < num_rows; r += kRowChunk) {
      const FewRows rows =
          few_rows(cached, all, r, std::min(kRowChunk, num_rows - r), first_key, keys);
      if (rows.some.end > 0) {
        attend_few_rows<Steps>(rows, blocks, packed, ahead, keys, cached.rule);
      }
    }
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    finish_row(all.state, r, a.y_TND, row + item.begin + r % tokens,
               item.group * q_per_kv + r / tokens);
  }
}

}  // namespace

/// The item's rows are counted by their positions in the sequence.
template <class Steps>
void run_cached_bf16(const AttentionCached& a, const ScoreRule& rule,
                     const Bf16CachedScratch& layout, const AttentionItem& item, float* scratch) {
  const auto sequence = static_cast<size_t>(item.sequence);
  const CachedBlocks cached{a, rule, item,
                            sight_of(a, item.sequence).keys_of(Range{item.begin, item.end}),
                            reinterpret_cast<uint32_t*>(scratch)};
  const int64_t row = a.sequences.cu_seqlens[sequence] - a.sequences.past[sequence];
  scratch += layout.chunks.width;
  if (item.end - item.begin < kFewestNewTokens) {
    cached_rows<Steps>(cached, layout.chunks, row, scratch);
  } else {
    cached_chunks<Steps>(cached, layout.chunks, row, scratch);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_cached_bf16_scratch(const Exec& exec, const AttentionCached& a) {
  return distance_bias_bytes(a.bias, longest_sequence(a)) +
         items_scratch_bytes(exec, Bf16CachedScratch(a, exec.device.target().num_threads).floats());
}

void attention_cached_bf16(Exec& exec, const AttentionCached& a) {
  const Bf16CachedScratch layout(a, exec.device.target().num_threads);
  const std::vector<AttentionItem> items = cached_items(a, layout.step);
  const ScoreRule rule(a.scale, a.softcap, spread_bias(a.bias, longest_sequence(a), exec.scratch));
  run_items(exec, items, layout.floats(),
            exec.scratch + distance_bias_bytes(a.bias, longest_sequence(a)),
            [&](const AttentionItem& item, float* scratch) {
              MEGA_CALL_BF16(exec, attention::run_cached_bf16, a, rule, layout, item, scratch);
            });
}

}  // namespace megalith::kernels
#endif
