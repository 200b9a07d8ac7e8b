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
#include "kernels/attention/bf16_backward_pair-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

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
