// SPDX-License-Identifier: Apache-2.0
// One pair of a block of keys and a block of queries in the backward pass of bf16 attention:
// scores, their gradients, and what they add to dk, dv and dq. Included once per instruction set.

#if defined(MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
#undef MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
#else
#define MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
#endif

#include "kernels/attention/bf16_gradients-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// Queries [query, query + queries) of `head` against keys [key, key + keys).
struct BlockPair {
  int64_t head;
  int64_t query, queries;
  int64_t key, keys;
  const Sight& sight;
  bool full;  // every query sees every key

  BlockPair(int64_t h, int64_t i, int64_t j, const Sight& all)
      : head(h),
        query(i),
        queries(std::min(kBackwardBlock, all.queries - i)),
        key(j),
        keys(std::min(kBackwardBlock, all.keys - j)),
        sight(all),
        full(all.all_see_all({i, i + queries}, {j, j + keys})) {}
  int64_t chunks() const { return (queries + kChunk - 1) / kChunk; }
  /// The queries of a chunk.
  Range rows(int64_t chunk) const {
    return {query + chunk * kChunk, query + std::min((chunk + 1) * kChunk, queries)};
  }
  /// The keys of the pair, in whole tiles, of which some query of the chunk sees one.
  Range seen(int64_t chunk) const {
    if (full) return {0, keys};
    const Range part = part_of_block(sight.keys_of(rows(chunk)), key, keys);
    return {block_start(part.begin, kTileRows), std::min(keys, round_up(part.end, kTileRows))};
  }
  /// True unless all of the chunk's queries see keys j .. j + count of the block.
  bool is_masked(int64_t chunk, int64_t j, int64_t count) const {
    return !sight.all_see_all(rows(chunk), {key + j, key + j + count});
  }
  /// The chunks that see a key of the tile at key number j.
  Range seen_by(int64_t j) const {
    if (full) return {0, chunks()};
    Range some;
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      const Range part = seen(chunk);
      if (j < part.begin || j >= part.end) continue;
      some = {some.empty() ? chunk : some.begin, chunk + 1};
    }
    return some;
  }
};

/// The lanes from `lane` on of `count` floats, then zeros.
HWY_INLINE FloatVec load_lanes(const float* from, int64_t count, int64_t lane) {
  const int64_t n = count - lane;
  if (n <= 0) return hn::Zero(FloatTag());
  return n < kFloatLanes ? load_some(from + lane, n) : load(from + lane);
}

/// Adds the gradients of a tile's scores, [rows][kChunk] from key number j on, to the diagonals of
/// their head.
HWY_INLINE void add_to_diagonals(const Bf16BackwardBlocks& blocks, int64_t query, int64_t j,
                                 int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    float* to = blocks.diagonals + query + kBackwardBlock - 1 - (j + r);
    for (int64_t lane = 0; lane < kChunk; lane += kFloatLanes)
      store(hn::Add(load(to + lane), load(blocks.dp + r * kChunk + lane)), to + lane);
  }
}

/// p and ds of one chunk of the pair, in all forms.
template <class Steps>
HWY_INLINE void pair_scores(const Bf16BackwardCall& call, const Bf16Place& place,
                            const Bf16BackwardBlocks& blocks, const BlockPair& pair,
                            int64_t chunk) {
  const int64_t words = call.layout.words;
  const Range seen = pair.seen(chunk), queries = pair.rows(chunk);
  if (seen.empty()) return;
  if (place.dropout.on) {
    keep_bits(place.dropout, pair.head, queries.begin, queries.size(), pair.key, seen.end,
              blocks.keep);
  }
  const float* lse = call.a.lse_NT.row<float>(pair.head) + place.query_row + queries.begin;
  const float* delta = call.common.delta_NT.row<float>(pair.head) + place.query_row + queries.begin;
  const SeenKeys keys(pair.sight, queries.begin, queries.size());
  const DistanceBias& bias = place.rule.bias;
  HWY_ALIGN float biases[kBackwardBlock + kChunk];
  if (bias) {
    bias.run_down(pair.head, pair.key + kBackwardBlock - 1 - queries.begin,
                  kBackwardBlock + kChunk - 1, biases);
  }
  for (int64_t j = seen.begin; j < seen.end; j += kTileRows) {
    const int64_t rows = std::min(kTileRows, pair.keys - j);
    dot_product<Steps>({blocks.key_rows + j * words, words, 1},
                       {blocks.q_transposed + chunk * words * kChunk, kChunk},
                       {.data = blocks.scores, .row = kChunk, .times = place.rule.factor()}, rows,
                       kChunk, 0, words);
    dot_product<Steps>({blocks.value_rows + j * words, words, 1},
                       {blocks.dy_transposed + chunk * words * kChunk, kChunk}, {blocks.dp, kChunk},
                       rows, kChunk, 0, words);
    // A bias would make something of the lanes without a query.
    const bool masked =
        pair.is_masked(chunk, j, round_up<int64_t>(rows, 2)) || (bias && queries.size() < kChunk);
    for (int64_t lane = 0; lane < kChunk; lane += 2 * kFloatLanes) {
      const int64_t next = lane + kFloatLanes, count = queries.size();
      const GradientLanes lanes{place,
                                {SeenLanes(keys, lane), SeenLanes(keys, next)},
                                {load_lanes(lse, count, lane), load_lanes(lse, count, next)},
                                {load_lanes(delta, count, lane), load_lanes(delta, count, next)},
                                place.dropout.on ? blocks.keep : nullptr,
                                biases,
                                lane};
      if (bias) {
        round_tile<Steps, false, false, true>(blocks, lanes, pair.key, chunk, j, rows, masked);
      } else if (place.rule.softcap > 0) {
        round_tile<Steps, false, true, false>(blocks, lanes, pair.key, chunk, j, rows, masked);
      } else if (masked || place.dropout.on) {
        round_tile<Steps, false, false, false>(blocks, lanes, pair.key, chunk, j, rows, masked);
      } else {
        round_tile<Steps, true, false, false>(blocks, lanes, pair.key, chunk, j, rows, false);
      }
    }
    if (blocks.diagonals != nullptr) add_to_diagonals(blocks, queries.begin, j, rows);
  }
}

/// Rows of dk or dv: += left [key][query / 2] times row pairs of queries.
template <class Steps>
HWY_INLINE void add_to_keys(const Bf16BackwardCall& call, const BlockPair& pair,
                            const uint32_t* left, const uint32_t* right, float* sums) {
  constexpr int64_t kRow = kBackwardBlock / 2;
  const int64_t width = call.layout.width;
  for (int64_t j = 0; j < pair.keys; j += kTileRows) {
    const Range chunks = pair.seen_by(j);
    if (chunks.empty()) continue;
    dot_product<Steps>({left + j * kRow, kRow, 1}, {right, width},
                       {sums + j * width, width, SumStart::carry},
                       std::min(kTileRows, pair.keys - j), width, chunks.begin * kChunk / 2,
                       std::min(chunks.end * kChunk / 2, words_of(pair.queries)));
  }
}

/// Continues dk, dv and dq (of the pair's first chunk at `dq`) over one pair whose operands are
/// packed.
template <class Steps>
HWY_NOINLINE void backward_pair(const Bf16BackwardCall& call, const Bf16Place& place,
                                const Bf16BackwardBlocks& blocks, const BlockPair& pair,
                                float* dq) {
  for (int64_t chunk = 0; chunk < pair.chunks(); ++chunk) {
    pair_scores<Steps>(call, place, blocks, pair, chunk);
  }
  if (call.pass != BackwardPass::queries) {
    add_to_keys<Steps>(call, pair, blocks.p, blocks.dy_pairs, blocks.dv);
    add_to_keys<Steps>(call, pair, blocks.ds, blocks.q_pairs, blocks.dk);
  }
  if (call.pass == BackwardPass::keys) return;
  for (int64_t chunk = 0; chunk < pair.chunks(); ++chunk) {
    const Range seen = pair.seen(chunk);
    if (seen.empty()) continue;
    dot_product<Steps>({blocks.key_pairs, 1, call.layout.width},
                       {blocks.ds_pairs + chunk * kBackwardBlock / 2 * kChunk, kChunk},
                       {dq + chunk * call.layout.dq(), kChunk, SumStart::carry}, call.layout.size,
                       kChunk, seen.begin / 2, words_of(seen.end));
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
