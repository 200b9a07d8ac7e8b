// SPDX-License-Identifier: Apache-2.0
// What a thread holds in the backward pass of bf16 attention, and the probabilities and score
// gradients of a tile: from dot products to rounded words. Included once per instruction set.

#if defined(MEGA_ATTENTION_BF16_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_GRADIENTS_INL_H_
#undef MEGA_ATTENTION_BF16_GRADIENTS_INL_H_
#else
#define MEGA_ATTENTION_BF16_GRADIENTS_INL_H_
#endif

#include "kernels/attention/backward_bf16_scratch.h"
#include "kernels/attention/bf16_blocks-inl.h"
#include "kernels/elementary/several_vectors-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// One thread's blocks; words unless floats.
struct Bf16BackwardBlocks {
  // A part for each of the layout's key blocks:
  uint32_t *key_rows, *value_rows;  // [key][words]
  uint32_t* key_pairs;              // [key / 2][width]
  float *dk, *dv;                   // [key][width], the layout's partials of each
  // One for the block of queries:
  uint32_t *q_transposed, *dy_transposed;
  uint32_t *q_pairs, *dy_pairs;  // [query / 2][width]
  // One for the pair:
  uint32_t *p, *ds;    // [key][query / 2]
  uint32_t* ds_pairs;  // per chunk [key / 2][kChunk]
  uint32_t* keep;
  float *scores, *dp;  // [kTileRows][kChunk]
  float* dq;           // of all queries: per chunk [D][kChunk]
  // Of each key block: sums of the head's gradients of scores by distance, from its last key and
  // the first query downwards. Null: not wanted.
  float* diagonals;

  Bf16BackwardBlocks(const Bf16BackwardScratch& layout, float* scratch) {
    const auto take = [&]<class T>(T*& part, int64_t count) {
      part = reinterpret_cast<T*>(scratch);
      scratch += count;
    };
    take(key_rows, layout.key_blocks * layout.rows());
    take(value_rows, layout.key_blocks * layout.rows());
    take(key_pairs, layout.key_blocks * layout.pairs());
    take(dk, layout.partials * layout.key_blocks * layout.sums());
    take(dv, layout.partials * layout.key_blocks * layout.sums());
    take(q_transposed, layout.rows());
    take(dy_transposed, layout.rows());
    take(q_pairs, layout.pairs());
    take(dy_pairs, layout.pairs());
    for (uint32_t** square : {&p, &ds, &ds_pairs}) take(*square, layout.square());
    take(keep, kBackwardBlock);
    take(scores, kTileRows * kChunk);
    take(dp, kTileRows * kChunk);
    take(dq, layout.dq_chunks * layout.dq());
    take(diagonals, layout.key_blocks * layout.diagonals);
    if (layout.diagonals == 0) diagonals = nullptr;
  }
  /// With the parts of key block number b.
  Bf16BackwardBlocks of_keys(const Bf16BackwardScratch& layout, int64_t b) const {
    Bf16BackwardBlocks part = *this;
    part.key_rows += b * layout.rows();
    part.value_rows += b * layout.rows();
    part.key_pairs += b * layout.pairs();
    part.dk += b * layout.sums();
    part.dv += b * layout.sums();
    if (diagonals != nullptr) part.diagonals += b * layout.diagonals;
    return part;
  }
  /// With partial number n of dk and dv.
  Bf16BackwardBlocks of_partial(const Bf16BackwardScratch& layout, int64_t n) const {
    Bf16BackwardBlocks part = *this;
    part.dk += n * layout.key_blocks * layout.sums();
    part.dv += n * layout.key_blocks * layout.sums();
    return part;
  }
};

/// One sequence as the item sees it.
struct Bf16Place : SequenceRows {
  int64_t sequence;
  SequenceDropout dropout;
  const ScoreRule& rule;

  Bf16Place(const Bf16BackwardCall& call, int64_t number)
      : SequenceRows(rows_of(call.a.sequences, number)),
        sequence(number),
        dropout(call.a.sequences, call.a.dropout, number),
        rule(call.common.rule) {}
};

/// What two vectors of a chunk's lanes need.
struct GradientLanes {
  const Bf16Place& place;
  SeenLanes seen[2];
  FloatVec lse[2], delta[2];
  const uint32_t* keep;  // null without dropout
  const float* biases;   // of the block's last key and the chunk's first query, downwards
  int64_t lane;
};
/// Two rows of two vectors, row after row, and the operations on them.
using FourVectors = Several<FloatVec, 4>;
using FourOps = SeveralOps<4>;
/// Not yet rounded: the dropped p, and ds.
struct Gradients {
  FourVectors p, ds;
};

/// Those of keys j and j + 1 of the block at `key`, rows r and r + 1 of the tile. Plain: without
/// softcap, dropout, biases and masks. With biases, ds before its slope takes the place of dp.
template <bool kPlain, bool kCapped, bool kBiased>
HWY_INLINE Gradients gradients(const Bf16BackwardBlocks& blocks, const GradientLanes& lanes,
                               int64_t key, int64_t j, int64_t r, bool masked) {
  const FloatTag d;
  const ScoreRule& rule = lanes.place.rule;
  const auto row_at = [&](const float* tile, int i) HWY_ATTR {
    return load(tile + (r + i / 2) * kChunk + lanes.lane + i % 2 * kFloatLanes);
  };
  FourVectors slope = FourOps::set(rule.scale), x;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    FloatVec s = row_at(blocks.scores, i);
    if constexpr (kCapped) {
      const FloatVec t = elementary::tanh<SimdOps>(s);
      s = hn::Mul(t, hn::Set(d, rule.softcap));
      slope.of[i] = hn::Mul(slope.of[i], hn::NegMulAdd(t, t, hn::Set(d, 1.0f)));
    }
    if constexpr (kBiased) {
      const int64_t at = kBackwardBlock - 1 - (j + i / 2) + lanes.lane + i % 2 * kFloatLanes;
      s = hn::Add(s, load(lanes.biases + at));
    }
    x.of[i] = hn::Sub(s, lanes.lse[i % 2]);
  }
  Gradients result;
  // Not above 0: no score is above its log-sum-exp.
  const FourVectors p = elementary::exp_without_overflow<FourOps>(x);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    FloatVec dp = row_at(blocks.dp, i), dropped = p.of[i];
    if (!kPlain && lanes.keep != nullptr) {
      const FloatVec factor = keep_factors(lanes.keep, j + i / 2, lanes.lane + i % 2 * kFloatLanes,
                                           hn::Set(d, lanes.place.dropout.scale));
      dp = hn::IfThenElseZero(hn::Ne(factor, hn::Zero(d)), hn::Mul(dp, factor));
      dropped = hn::Mul(dropped, factor);
    }
    FloatVec unscaled = hn::Mul(p.of[i], hn::Sub(dp, lanes.delta[i % 2]));
    FloatVec ds = hn::Mul(unscaled, slope.of[i]);
    if (!kPlain && masked) {
      const auto seen = lanes.seen[i % 2].see(key + j + i / 2);
      dropped = hn::IfThenElseZero(seen, dropped);
      unscaled = hn::IfThenElseZero(seen, unscaled);
      ds = hn::IfThenElseZero(seen, ds);
    }
    if constexpr (kBiased)
      store(unscaled, blocks.dp + (r + i / 2) * kChunk + lanes.lane + i % 2 * kFloatLanes);
    result.p.of[i] = dropped;
    result.ds.of[i] = ds;
  }
  return result;
}

/// Rows j .. j + rows of p, ds and ds_pairs for two vectors of a chunk's lanes, from the tile's
/// scores and dp. A row after an odd number of them becomes zeros.
template <class Steps, bool kPlain, bool kCapped, bool kBiased>
HWY_INLINE void round_tile(const Bf16BackwardBlocks& blocks, const GradientLanes& lanes,
                           int64_t key, int64_t chunk, int64_t first, int64_t rows, bool masked) {
  constexpr int64_t kRow = kBackwardBlock / 2;
  uint32_t* ds_pairs = blocks.ds_pairs + chunk * kRow * kChunk + lanes.lane;
  const int64_t column = (chunk * kChunk + lanes.lane) / 2;
  for (int64_t r = 0; r < rows; r += 2) {
    const int64_t j = first + r;
    const Gradients of = gradients<kPlain, kCapped, kBiased>(blocks, lanes, key, j, r, masked);
    const FourVectors &p = of.p, &ds = of.ds;
    uint32_t *p_row = blocks.p + j * kRow + column, *ds_row = blocks.ds + j * kRow + column;
    store_words(Steps(), p.of[0], p.of[1], p_row);
    store_words(Steps(), p.of[2], p.of[3], p_row + kRow);
    store_words(Steps(), ds.of[0], ds.of[1], ds_row);
    store_words(Steps(), ds.of[2], ds.of[3], ds_row + kRow);
    uint32_t* pairs = ds_pairs + j / 2 * kChunk;
    hn::StoreU(word_pairs(Steps(), ds.of[0], ds.of[2]), WordTag(), pairs);
    hn::StoreU(word_pairs(Steps(), ds.of[1], ds.of[3]), WordTag(), pairs + kFloatLanes);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_GRADIENTS_INL_H_
