// SPDX-License-Identifier: Apache-2.0
// Backward over bf16 heads (attention_bf16.h), in pairs of 128 keys and 128 queries. Scores and
// their gradients are computed transposed, [key][query], a tile of 12 keys x 32 queries at a time,
// and rounded at once. dk and dv have a row per key; dq is kept transposed, [D][32 queries] per
// chunk, until all keys are done. A block of queries is packed once for several blocks of keys.
// Passes as in attention_backward_cpu.cpp; they change no bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_backward_bf16.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/bf16_backward_pair-inl.h"
#include "kernels/reduction/tree_sum.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

HWY_INLINE void prefetch_keys(const Bf16BackwardCall& call, const Bf16Place& place, int64_t group,
                              Range keys) {
  const int64_t count = std::min(keys.end, place.sight.keys) - keys.begin;
  if (count <= 0) return;
  prefetch_rows(call.a.k_TKD, place.key_row + keys.begin, group, count);
  prefetch_rows(call.a.v_TKD, place.key_row + keys.begin, group, count);
}
HWY_INLINE void pack_keys(const Bf16BackwardCall& call, const Bf16Place& place,
                          const Bf16BackwardBlocks& blocks, int64_t group, int64_t key) {
  const int64_t count = std::min(kBackwardBlock, place.sight.keys - key);
  const int64_t row = place.key_row + key;
  prefetch_keys(call, place, group, {key + count, key + count + kBackwardBlock});
  pack_word_rows(call.a.k_TKD, row, group, count, blocks.key_rows);
  pack_word_rows(call.a.v_TKD, row, group, count, blocks.value_rows);
  pack_row_pairs(call.a.k_TKD, row, group, count, call.layout.width, blocks.key_pairs);
}
HWY_INLINE void pack_queries(const Bf16BackwardCall& call, const Bf16Place& place,
                             const Bf16BackwardBlocks& blocks, int64_t head, int64_t query) {
  const int64_t count = std::min(kBackwardBlock, place.sight.queries - query);
  const int64_t row = place.query_row + query, width = call.layout.width;
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t rows = std::min(kChunk, count - i), at = i * call.layout.words;
    pack_transposed(call.a.q_TND, row + i, head, rows, blocks.q_transposed + at);
    pack_transposed(call.a.dy_TND, row + i, head, rows, blocks.dy_transposed + at);
  }
  if (call.pass == BackwardPass::queries) return;
  pack_row_pairs(call.a.q_TND, row, head, count, width, blocks.q_pairs);
  pack_row_pairs(call.a.dy_TND, row, head, count, width, blocks.dy_pairs);
}
HWY_INLINE void prefetch_queries(const Bf16BackwardCall& call, const Bf16Place& place, int64_t head,
                                 int64_t query) {
  if (query >= place.sight.queries) return;
  const int64_t count = std::min(kBackwardBlock, place.sight.queries - query);
  prefetch_rows(call.a.q_TND, place.query_row + query, head, count);
  prefetch_rows(call.a.dy_TND, place.query_row + query, head, count);
}
/// The dq of queries [begin, end) of one head, whose first chunk is at `dq`.
HWY_INLINE void write_queries(const Bf16BackwardCall& call, const Bf16Place& place, float* dq,
                              int64_t begin, int64_t end, int64_t head) {
  for (int64_t i = begin; i < end; i += kChunk) {
    const int64_t count = std::min(kChunk, end - i), row = place.query_row + i;
    write_lanes(
        dq + (i - begin) / kChunk * call.layout.dq(), call.layout.size, count,
        [](FloatVec sum, int64_t) HWY_ATTR { return hn::Add(sum, hn::Zero(FloatTag())); },
        [&](int64_t lane) {
          return reinterpret_cast<bf16_t*>(call.a.dq_TND.at(row + lane, head));
        });
  }
}

/// Query block `query` of the h-th head of the group against the key blocks of [key, end), all
/// packed.
template <class Steps>
HWY_INLINE void backward_query_block(const Bf16BackwardCall& call, const Bf16Place& place,
                                     const Bf16BackwardBlocks& blocks, int64_t head, int64_t query,
                                     int64_t key, int64_t end, float* dq) {
  const Range seen =
      place.sight.keys_of({query, std::min(query + kBackwardBlock, place.sight.queries)});
  for (int64_t b = 0; key < std::min(end, seen.end); ++b, key += kBackwardBlock) {
    if (key + kBackwardBlock <= seen.begin) continue;
    backward_pair<Steps>(call, place, blocks.of_keys(call.layout, b),
                         BlockPair(head, query, key, place.sight), dq);
  }
}

/// The sums of one head's gradients of scores by bucket, of each of these blocks of keys.
void fold_diagonals(const Bf16BackwardCall& call, const Bf16Place& place,
                    const Bf16BackwardBlocks& blocks, int64_t head, Range keys) {
  const BiasSums& sums = call.common.bias_sums;
  const int64_t count = place.sight.queries + kBackwardBlock - 1;
  for (int64_t key = keys.begin; key < keys.end; key += kBackwardBlock) {
    const float* last =
        blocks.of_keys(call.layout, (key - keys.begin) / kBackwardBlock).diagonals + count - 1;
    sums.fold(sums.first_block(place.sequence) + key / kBackwardBlock, head, last, -1,
              key - (place.sight.queries - 1), count);
  }
}

/// The packed key blocks of [key, end) and the runs [lo, hi) of the group's query heads: their dk
/// and dv go to the blocks' first partial, summed as the tree over runs.
template <class Steps>
void backward_runs(const Bf16BackwardCall& call, const Bf16Place& place,
                   const Bf16BackwardBlocks& blocks, int64_t group, Range keys, int64_t lo,
                   int64_t hi) {
  const int64_t floats = call.layout.key_blocks * call.layout.sums();
  if (hi - lo > 1) {
    const Bf16BackwardBlocks right = blocks.of_partial(call.layout, 1);
    backward_runs<Steps>(call, place, blocks, group, keys, lo, tree_middle(lo, hi));
    backward_runs<Steps>(call, place, right, group, keys, tree_middle(lo, hi), hi);
    for (int64_t i = 0; i < floats; i += kFloatLanes) {
      store(hn::Add(load(blocks.dk + i), load(right.dk + i)), blocks.dk + i);
      store(hn::Add(load(blocks.dv + i), load(right.dv + i)), blocks.dv + i);
    }
    return;
  }
  std::fill_n(blocks.dk, floats, 0.0f);
  std::fill_n(blocks.dv, floats, 0.0f);
  const int64_t q_per_kv = call.a.q_TND.num_heads / call.a.k_TKD.num_heads;
  const int64_t run = q_per_kv / call.a.kv_partials;
  const int64_t head_chunks = round_up(place.sight.queries, kChunk) / kChunk;
  const Range seen_by = place.sight.mirrored().keys_of(keys);
  const int64_t first = block_start(seen_by.begin, kBackwardBlock);
  const int64_t query_blocks = (seen_by.end - first + kBackwardBlock - 1) / kBackwardBlock;
  for (int64_t h = lo * run; h < hi * run; ++h) {
    const int64_t head = group * q_per_kv + h;
    if (blocks.diagonals != nullptr)
      std::fill_n(blocks.diagonals, call.layout.key_blocks * call.layout.diagonals, 0.0f);
    for (int64_t b = 0; b < query_blocks; ++b) {
      const int64_t query = first + b * kBackwardBlock;
      if (h == 0) {  // a part of the keys that come next
        prefetch_keys(call, place, group,
                      {keys.end + b * keys.size() / query_blocks,
                       keys.end + (b + 1) * keys.size() / query_blocks});
      }
      pack_queries(call, place, blocks, head, query);
      prefetch_queries(call, place, head, query + kBackwardBlock);
      backward_query_block<Steps>(
          call, place, blocks, head, query, keys.begin, keys.end,
          blocks.dq + (h * head_chunks + query / kChunk) * call.layout.dq());
    }
    if (blocks.diagonals != nullptr) fold_diagonals(call, place, blocks, head, keys);
  }
}

/// Keys [item.begin, item.end), some blocks of them at a time against the query blocks of the
/// group's heads that see some of them.
template <class Steps>
void backward_keys(const Bf16BackwardCall& call, const AttentionItem& item, float* scratch) {
  const AttentionBackward& a = call.a;
  const Bf16Place place(call, item.sequence);
  const Bf16BackwardBlocks blocks(call.layout, scratch);
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads, width = call.layout.width;
  const int64_t head_dq = round_up(place.sight.queries, kChunk) / kChunk * call.layout.dq();
  const bool all = call.pass == BackwardPass::all;
  if (all) std::fill_n(blocks.dq, q_per_kv * head_dq, 0.0f);
  const int64_t step = call.layout.key_blocks * kBackwardBlock;
  for (int64_t key = item.begin; key < item.end; key += step) {
    const int64_t end = std::min(key + step, item.end);
    for (int64_t j = key; j < end; j += kBackwardBlock) {
      pack_keys(call, place, blocks.of_keys(call.layout, (j - key) / kBackwardBlock), item.group,
                j);
    }
    backward_runs<Steps>(call, place, blocks, item.group, {key, end}, 0, a.kv_partials);
    write_rows(blocks.dk, end - key, width, a.dk_TKD, place.key_row + key, item.group);
    write_rows(blocks.dv, end - key, width, a.dv_TKD, place.key_row + key, item.group);
  }
  for (int64_t h = 0; h < q_per_kv && all; ++h) {
    write_queries(call, place, blocks.dq + h * head_dq, 0, place.sight.queries,
                  item.group * q_per_kv + h);
  }
}

/// One query block of one head against the key blocks that it sees.
template <class Steps>
void backward_queries(const Bf16BackwardCall& call, const AttentionItem& item, float* scratch) {
  const Bf16Place place(call, item.sequence);
  const Bf16BackwardBlocks blocks(call.layout, scratch);
  std::fill_n(blocks.dq, kBackwardBlock / kChunk * call.layout.dq(), 0.0f);
  pack_queries(call, place, blocks, item.head, item.begin);
  const Range seen = place.sight.keys_of(Range{item.begin, item.end});
  for (int64_t key = block_start(seen.begin, kBackwardBlock); key < seen.end;
       key += kBackwardBlock) {
    pack_keys(call, place, blocks, item.group, key);
    backward_query_block<Steps>(call, place, blocks, item.head, item.begin, key,
                                key + kBackwardBlock, blocks.dq);
  }
  write_queries(call, place, blocks.dq, item.begin, item.end, item.head);
}

}  // namespace

template <class Steps>
void run_backward_bf16(const Bf16BackwardCall& call, const AttentionItem& item, float* scratch) {
  if (call.pass == BackwardPass::queries) {
    backward_queries<Steps>(call, item, scratch);
  } else {
    backward_keys<Steps>(call, item, scratch);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_backward_bf16_scratch(const Exec& exec, const AttentionBackward& a) {
  return backward_scratch_bytes(exec, a, kBackwardBlock,
                                [&](auto pass) { return Bf16BackwardScratch(a, pass).floats(); });
}

void attention_backward_bf16(Exec& exec, const AttentionBackward& a) {
  if (a.q_TND.num_rows == 0 && a.k_TKD.num_rows == 0) return;
  const BackwardCommon common(exec, a, kBackwardBlock);
  run_backward_passes(exec, a, kBackwardBlock, [&](BackwardPass pass, auto items) {
    const Bf16BackwardCall call{a, common, pass, Bf16BackwardScratch(a, pass)};
    run_items(exec, items, call.layout.floats(), common.scratch,
              [&](const AttentionItem& item, float* scratch) {
                MEGA_CALL_BF16(exec, attention::run_backward_bf16, call, item, scratch);
              });
  });
  if (common.bias_sums) common.bias_sums.add_up(exec, a.dtable_BN);
}

}  // namespace megalith::kernels
#endif
