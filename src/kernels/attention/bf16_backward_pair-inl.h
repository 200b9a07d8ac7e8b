// SPDX-License-Identifier: Apache-2.0
// One pair of a block of keys and a block of queries in the backward pass of bf16 attention:
// scores, their gradients, and what they add to dk, dv and dq. For AVX-512 only; included inside
// foreach_target's passes.

#if defined(MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
#undef MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
#else
#define MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
#endif

#include "kernels/attention/backward_bf16_scratch.h"
#include "kernels/attention/bf16_blocks-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

/// One thread's blocks; words unless floats.
struct BackwardBlocks {
  // A part for each of the layout's key blocks:
  uint32_t *key_rows, *value_rows;  // [key][words]
  uint32_t* key_pairs;              // [key / 2][width]
  float *dk, *dv;                   // [key][width]
  // One for the block of queries:
  uint32_t *q_transposed, *dy_transposed;
  uint32_t *q_pairs, *dy_pairs;  // [query / 2][width]
  // One for the pair:
  uint32_t *p, *ds;    // [key][query / 2]
  uint32_t* ds_pairs;  // per chunk [key / 2][kChunk]
  uint32_t* keep;
  float *scores, *dp;  // [kTileRows][kChunk]
  float* dq;           // of all queries: per chunk [D][kChunk]

  BackwardBlocks(const Bf16BackwardScratch& layout, float* scratch) {
    const auto take = [&]<class T>(T*& part, int64_t count) {
      part = reinterpret_cast<T*>(scratch);
      scratch += count;
    };
    take(key_rows, layout.key_blocks * layout.rows());
    take(value_rows, layout.key_blocks * layout.rows());
    take(key_pairs, layout.key_blocks * layout.pairs());
    take(dk, layout.key_blocks * layout.sums());
    take(dv, layout.key_blocks * layout.sums());
    take(q_transposed, layout.rows());
    take(dy_transposed, layout.rows());
    take(q_pairs, layout.pairs());
    take(dy_pairs, layout.pairs());
    for (uint32_t** square : {&p, &ds, &ds_pairs}) take(*square, layout.square());
    take(keep, kBackwardBlock);
    take(scores, kTileRows * kChunk);
    take(dp, kTileRows * kChunk);
    take(dq, layout.dq_chunks * layout.dq());
  }
  /// With the parts of key block number b.
  BackwardBlocks of_keys(const Bf16BackwardScratch& layout, int64_t b) const {
    BackwardBlocks part = *this;
    part.key_rows += b * layout.rows();
    part.value_rows += b * layout.rows();
    part.key_pairs += b * layout.pairs();
    part.dk += b * layout.sums();
    part.dv += b * layout.sums();
    return part;
  }
};

/// One sequence as the item sees it.
struct Sequence {
  int64_t row;
  int64_t length;
  SequenceDropout dropout;

  Sequence(const AttentionBackward& a, int64_t sequence)
      : dropout(a.sequences, a.dropout, sequence) {
    row = a.sequences.cu_seqlens[static_cast<size_t>(sequence)];
    length = a.sequences.cu_seqlens[static_cast<size_t>(sequence) + 1] - row;
  }
};

/// Queries [query, query + queries) of `head` against keys [key, key + keys).
struct BlockPair {
  int64_t head;
  int64_t query, queries;
  int64_t key, keys;
  bool causal;

  int64_t chunks() const { return (queries + kChunk - 1) / kChunk; }
  /// Keys that some query of the chunk sees.
  int64_t seen(int64_t chunk) const {
    if (!causal) return keys;
    return std::clamp<int64_t>(query + (chunk + 1) * kChunk - key, 0, keys);
  }
  /// The first chunk that sees key number j, which then holds numbers in j's tile.
  int64_t first_chunk(int64_t j) const {
    return causal ? std::max<int64_t>(0, (key + j - query) / kChunk) : 0;
  }
};

/// What the lanes of one half of a chunk need.
struct Lanes {
  __m512 lse, delta;        // lse times log2(e)
  __m512 scale, exp_scale;  // scale, and times log2(e)
  __m512 keep_scale;
  const uint32_t* keep;  // null without dropout
  int64_t query;
  int64_t half;
  bool causal;
};
struct Gradients {
  __m512 p, ds;
};

/// Rounded later: the dropped p and ds = p * (drop(dp) - delta) * scale of key j (row r of the
/// tile).
HWY_INLINE Gradients gradients(const BackwardBlocks& blocks, const Lanes& lanes, int64_t key,
                               int64_t j, int64_t r) {
  const __m512 s = _mm512_loadu_ps(blocks.scores + r * kChunk + lanes.half);
  __m512 dp = _mm512_loadu_ps(blocks.dp + r * kChunk + lanes.half);
  __m512 p = exp2_16(_mm512_fmsub_ps(s, lanes.exp_scale, lanes.lse));
  if (lanes.causal) p = _mm512_maskz_mov_ps(causal_lanes(lanes.query, key + j), p);
  __m512 dropped = p;
  if (lanes.keep != nullptr) {
    const __mmask16 kept = kept_lanes(lanes.keep, j, lanes.half);
    dp = _mm512_maskz_mul_ps(kept, dp, lanes.keep_scale);
    dropped = _mm512_maskz_mul_ps(kept, p, lanes.keep_scale);
  }
  const __m512 ds = _mm512_mul_ps(_mm512_mul_ps(p, lanes.scale), _mm512_sub_ps(dp, lanes.delta));
  return {dropped, ds};
}

HWY_INLINE void write_rounded(uint32_t* to, __m512 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}

/// Rows j .. j + rows of p, ds and ds_pairs for one half of a chunk, from the tile's scores and dp.
HWY_INLINE void round_tile(const BackwardBlocks& blocks, const Lanes& lanes, const BlockPair& pair,
                           int64_t chunk, int64_t first, int64_t rows) {
  constexpr int64_t kRow = kBackwardBlock / 2;
  uint32_t* ds_pairs = blocks.ds_pairs + chunk * kRow * kChunk + lanes.half;
  const int64_t column = (chunk * kChunk + lanes.half) / 2;
  for (int64_t r = 0; r < rows; r += 2) {
    const int64_t j = first + r;
    const Gradients even = gradients(blocks, lanes, pair.key, j, r);
    Gradients odd{_mm512_setzero_ps(), _mm512_setzero_ps()};
    if (r + 1 < rows) odd = gradients(blocks, lanes, pair.key, j + 1, r + 1);
    write_rounded(blocks.p + j * kRow + column, even.p);
    write_rounded(blocks.ds + j * kRow + column, even.ds);
    if (r + 1 < rows) {
      write_rounded(blocks.p + (j + 1) * kRow + column, odd.p);
      write_rounded(blocks.ds + (j + 1) * kRow + column, odd.ds);
    }
    _mm512_storeu_si512(ds_pairs + j / 2 * kChunk, word_pairs(even.ds, odd.ds));
  }
}

HWY_INLINE __m512 load_lanes(const float* from, int64_t count) {
  const int64_t n = std::clamp<int64_t>(count, 0, 16);
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1 << n) - 1), from);
}

/// p and ds of one chunk of the pair, in all forms.
void pair_scores(const Bf16BackwardCall& call, const Sequence& sequence,
                 const BackwardBlocks& blocks, const BlockPair& pair, int64_t chunk) {
  const int64_t words = call.layout.words, seen = pair.seen(chunk);
  const int64_t query = pair.query + chunk * kChunk;
  const int64_t queries = std::min(kChunk, pair.queries - chunk * kChunk);
  if (sequence.dropout.on && seen > 0) {
    keep_bits(sequence.dropout, pair.head, query, queries, pair.key, seen, blocks.keep);
  }
  const float* lse = call.a.lse_NT.row<float>(pair.head) + sequence.row + query;
  const float* delta = call.delta_NT.row<float>(pair.head) + sequence.row + query;
  Lanes lanes[2];
  for (int64_t h = 0; h < 2; ++h) {
    lanes[h] = {_mm512_mul_ps(load_lanes(lse + 16 * h, queries - 16 * h), _mm512_set1_ps(kLog2E)),
                load_lanes(delta + 16 * h, queries - 16 * h),
                _mm512_set1_ps(call.a.scale),
                _mm512_set1_ps(call.a.scale * kLog2E),
                _mm512_set1_ps(sequence.dropout.scale),
                sequence.dropout.on ? blocks.keep : nullptr,
                query + 16 * h,
                16 * h,
                pair.causal && pair.key + seen - 1 > query};
  }
  for (int64_t j = 0; j < seen; j += kTileRows) {
    const int64_t rows = std::min(kTileRows, pair.keys - j);
    dot_rows<2>({blocks.key_rows + j * words, words, 1},
                {blocks.q_transposed + chunk * words * kChunk, kChunk}, {blocks.scores, kChunk},
                rows, 0, words);
    dot_rows<2>({blocks.value_rows + j * words, words, 1},
                {blocks.dy_transposed + chunk * words * kChunk, kChunk}, {blocks.dp, kChunk}, rows,
                0, words);
    for (const Lanes& half : lanes) round_tile(blocks, half, pair, chunk, j, rows);
  }
}

/// Rows of dk or dv: += left [key][query / 2] times row pairs of queries.
void add_to_keys(const Bf16BackwardCall& call, const BlockPair& pair, const uint32_t* left,
                 const uint32_t* right, float* sums, SumStart start) {
  constexpr int64_t kRow = kBackwardBlock / 2;
  const int64_t width = call.layout.width, end = words_of(pair.queries);
  for (int64_t d = 0; d < width; d += kChunk) {
    for (int64_t j = 0; j < pair.keys; j += kTileRows) {
      const int64_t rows = std::min(kTileRows, pair.keys - j);
      const int64_t begin = std::min(end, pair.first_chunk(j) * kChunk / 2);
      const WordsLeft a{left + j * kRow, kRow, 1};
      const WordsRight b{right + d, width};
      const WordsResult c{sums + j * width + d, width, start};
      if (d + kChunk <= width) {
        dot_rows<2>(a, b, c, rows, begin, end);
      } else {
        dot_rows<1>(a, b, c, rows, begin, end);
      }
    }
  }
}

/// Continues dk, dv (`first_queries`: starts them) and dq (of the pair's first chunk at `dq`) over
/// one pair whose operands are packed.
void backward_pair(const Bf16BackwardCall& call, const Sequence& sequence,
                   const BackwardBlocks& blocks, const BlockPair& pair, bool first_queries,
                   float* dq) {
  for (int64_t chunk = 0; chunk < pair.chunks(); ++chunk) {
    pair_scores(call, sequence, blocks, pair, chunk);
  }
  if (call.pass != BackwardPass::queries) {
    const SumStart start = first_queries ? SumStart::zero : SumStart::carry;
    add_to_keys(call, pair, blocks.p, blocks.dy_pairs, blocks.dv, start);
    add_to_keys(call, pair, blocks.ds, blocks.q_pairs, blocks.dk, start);
  }
  if (call.pass == BackwardPass::keys) return;
  for (int64_t chunk = 0; chunk < pair.chunks(); ++chunk) {
    const SumStart start = pair.key == 0 ? SumStart::zero : SumStart::carry;
    dot_panel<2>({blocks.key_pairs, 1, call.layout.width},
                 {blocks.ds_pairs + chunk * kBackwardBlock / 2 * kChunk, kChunk},
                 {dq + chunk * call.layout.dq(), kChunk, start}, call.layout.size, 0,
                 words_of(pair.seen(chunk)));
  }
}

}  // namespace
}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3
#endif  // MEGA_ATTENTION_BF16_BACKWARD_PAIR_INL_H_
