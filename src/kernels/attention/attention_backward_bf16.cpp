// SPDX-License-Identifier: Apache-2.0
// Backward in bf16 (attention_bf16.h), in pairs of 128 keys and 128 queries. Scores and their
// gradients are computed transposed, [key][query], a tile of 12 keys x 32 queries at a time, and
// rounded at once. dk and dv have a row per key; dq is kept transposed, [D][32 queries] per chunk,
// until all keys are done. A block of queries is packed once for several blocks of keys. Passes as
// in attention_backward_cpu.cpp; they change no bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_backward_bf16.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/bf16_blocks-inl.h"

#ifndef MEGA_ATTENTION_BACKWARD_BF16_SCRATCH
#define MEGA_ATTENTION_BACKWARD_BF16_SCRATCH
namespace megalith::kernels {
namespace {

/// One thread's scratch, in floats (or words).
struct Bf16BackwardScratch {
  int64_t size, words, width;
  int64_t key_blocks;
  int64_t dq_chunks;
  Bf16BackwardScratch(const AttentionBackward& a, BackwardPass pass)
      : size(a.q_TND.head_size),
        words(words_of(size)),
        width(padded_head_size(size)),
        key_blocks(pass == BackwardPass::all ? kBackwardKeyBlocks : 1),
        dq_chunks(pass == BackwardPass::keys ? 0
                  : pass == BackwardPass::queries
                      ? kBackwardBlock / kChunk
                      : a.q_TND.num_heads / a.k_TKD.num_heads * chunks_of_longest(a)) {}
  static int64_t chunks_of_longest(const AttentionBackward& a) {
    return round_up(longest(a.sequences.cu_seqlens), kChunk) / kChunk;
  }
  int64_t rows() const { return kBackwardBlock * words; }
  int64_t pairs() const { return kBackwardBlock / 2 * width; }
  int64_t square() const { return kBackwardBlock / 2 * kBackwardBlock; }
  int64_t sums() const { return kBackwardBlock * width; }
  int64_t dq() const { return size * kChunk; }
  int64_t floats() const {
    return key_blocks * (2 * rows() + pairs() + 2 * sums()) + 2 * rows() + 2 * pairs() +
           3 * square() + 2 * kTileRows * kChunk + kBackwardBlock + dq_chunks * dq();
  }
};

struct Bf16BackwardCall {
  const AttentionBackward& a;
  ConstView delta_NT;
  BackwardPass pass;
  Bf16BackwardScratch layout;
};

}  // namespace
}  // namespace megalith::kernels
#endif  // MEGA_ATTENTION_BACKWARD_BF16_SCRATCH

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

void pack_keys(const Bf16BackwardCall& call, const Sequence& sequence, const BackwardBlocks& blocks,
               int64_t group, int64_t key) {
  const int64_t count = std::min(kBackwardBlock, sequence.length - key), row = sequence.row + key;
  pack_word_rows(call.a.k_TKD, row, group, count, blocks.key_rows);
  pack_word_rows(call.a.v_TKD, row, group, count, blocks.value_rows);
  pack_row_pairs(call.a.k_TKD, row, group, count, call.layout.width, blocks.key_pairs);
}
void pack_queries(const Bf16BackwardCall& call, const Sequence& sequence,
                  const BackwardBlocks& blocks, int64_t head, int64_t query) {
  const int64_t count = std::min(kBackwardBlock, sequence.length - query);
  const int64_t row = sequence.row + query, width = call.layout.width;
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t rows = std::min(kChunk, count - i), at = i * call.layout.words;
    pack_transposed(call.a.q_TND, row + i, head, rows, blocks.q_transposed + at);
    pack_transposed(call.a.dy_TND, row + i, head, rows, blocks.dy_transposed + at);
  }
  if (call.pass == BackwardPass::queries) return;
  pack_row_pairs(call.a.q_TND, row, head, count, width, blocks.q_pairs);
  pack_row_pairs(call.a.dy_TND, row, head, count, width, blocks.dy_pairs);
}
void prefetch_queries(const Bf16BackwardCall& call, const Sequence& sequence, int64_t head,
                      int64_t query) {
  if (query >= sequence.length) return;
  const int64_t count = std::min(kBackwardBlock, sequence.length - query);
  prefetch_rows(call.a.q_TND, sequence.row + query, head, count);
  prefetch_rows(call.a.dy_TND, sequence.row + query, head, count);
}
/// The dq of queries [begin, end) of one head, whose first chunk is at `dq`.
void write_queries(const Bf16BackwardCall& call, const Sequence& sequence, const float* dq,
                   int64_t begin, int64_t end, int64_t head) {
  for (int64_t i = begin; i < end; i += kChunk) {
    write_transposed(dq + (i - begin) / kChunk * call.layout.dq(), nullptr, call.a.dq_TND,
                     sequence.row + i, head, std::min(kChunk, end - i));
  }
}

/// One block of queries of the h-th head of the group against some key blocks from `key` on, all
/// packed.
void backward_query_block(const Bf16BackwardCall& call, const Sequence& sequence,
                          const BackwardBlocks& blocks, const AttentionItem& item, int64_t h,
                          int64_t query, int64_t key) {
  const bool causal = call.a.sequences.causal;
  const int64_t q_per_kv = call.a.q_TND.num_heads / call.a.k_TKD.num_heads;
  const int64_t head_chunks = round_up(sequence.length, kChunk) / kChunk;
  float* dq = blocks.dq + (h * head_chunks + query / kChunk) * call.layout.dq();
  for (int64_t b = 0; b < call.layout.key_blocks; ++b, key += kBackwardBlock) {
    if (key >= item.end || (causal && key > query)) break;
    const BlockPair pair{item.group * q_per_kv + h,
                         query,
                         std::min(kBackwardBlock, sequence.length - query),
                         key,
                         std::min(kBackwardBlock, sequence.length - key),
                         causal};
    const bool first = h == 0 && query == (causal ? key : 0);
    backward_pair(call, sequence, blocks.of_keys(call.layout, b), pair, first, dq);
  }
}

/// Keys [item.begin, item.end), some blocks of them at a time against all query blocks of the
/// group's heads.
void backward_keys(const Bf16BackwardCall& call, const AttentionItem& item, float* scratch) {
  const AttentionBackward& a = call.a;
  const Sequence sequence(a, item.sequence);
  const BackwardBlocks blocks(call.layout, scratch);
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads, width = call.layout.width;
  const int64_t head_dq = round_up(sequence.length, kChunk) / kChunk * call.layout.dq();
  const int64_t step = call.layout.key_blocks * kBackwardBlock;
  for (int64_t key = item.begin; key < item.end; key += step) {
    const int64_t end = std::min(key + step, item.end);
    for (int64_t j = key; j < end; j += kBackwardBlock) {
      pack_keys(call, sequence, blocks.of_keys(call.layout, (j - key) / kBackwardBlock), item.group,
                j);
    }
    for (int64_t h = 0; h < q_per_kv; ++h) {
      const int64_t head = item.group * q_per_kv + h;
      for (int64_t query = a.sequences.causal ? key : 0; query < sequence.length;
           query += kBackwardBlock) {
        pack_queries(call, sequence, blocks, head, query);
        prefetch_queries(call, sequence, head, query + kBackwardBlock);
        backward_query_block(call, sequence, blocks, item, h, query, key);
      }
    }
    write_sums(blocks.dk, width, a.dk_TKD, sequence.row + key, item.group, end - key);
    write_sums(blocks.dv, width, a.dv_TKD, sequence.row + key, item.group, end - key);
  }
  for (int64_t h = 0; h < q_per_kv && call.pass == BackwardPass::all; ++h) {
    write_queries(call, sequence, blocks.dq + h * head_dq, 0, sequence.length,
                  item.group * q_per_kv + h);
  }
}

/// One query block of one head against its key blocks.
void backward_queries(const Bf16BackwardCall& call, const AttentionItem& item, float* scratch) {
  const bool causal = call.a.sequences.causal;
  const Sequence sequence(call.a, item.sequence);
  const BackwardBlocks blocks(call.layout, scratch);
  pack_queries(call, sequence, blocks, item.head, item.begin);
  const int64_t end = causal ? item.end : sequence.length;
  for (int64_t key = 0; key < end; key += kBackwardBlock) {
    pack_keys(call, sequence, blocks, item.group, key);
    const BlockPair pair{item.head,
                         item.begin,
                         item.end - item.begin,
                         key,
                         std::min(kBackwardBlock, sequence.length - key),
                         causal};
    backward_pair(call, sequence, blocks, pair, false, blocks.dq);
  }
  write_queries(call, sequence, blocks.dq, item.begin, item.end, item.head);
}

}  // namespace

void run_backward_bf16(const Bf16BackwardCall& call, const AttentionItem& item, float* scratch) {
  if (call.pass == BackwardPass::queries) {
    backward_queries(call, item, scratch);
  } else {
    backward_keys(call, item, scratch);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // HWY_TARGET == HWY_AVX3

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_backward_bf16_scratch(const Exec& exec, const AttentionBackward& a) {
  return backward_scratch_bytes(exec, a, kBackwardBlock,
                                [&](auto pass) { return Bf16BackwardScratch(a, pass).floats(); });
}

void attention_backward_bf16(Exec& exec, const AttentionBackward& a) {
  const View delta_NT = attention_deltas(exec, a);
  run_backward_passes(exec, a, kBackwardBlock, [&](BackwardPass pass, auto items) {
    const Bf16BackwardCall call{a, delta_NT, pass, Bf16BackwardScratch(a, pass)};
    run_items(exec, items, call.layout.floats(), exec.scratch + deltas_bytes(a),
              [&](const AttentionItem& item, float* scratch) {
                N_AVX3::attention::run_backward_bf16(call, item, scratch);
              });
  });
}

}  // namespace megalith::kernels
#endif
