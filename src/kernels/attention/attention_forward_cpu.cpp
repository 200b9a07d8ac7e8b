// SPDX-License-Identifier: Apache-2.0
// Streaming forward on the CPU: items of up to 384 query rows (all heads of a group) walk over the
// key blocks, packing each block once. With `probabilities` the scores of an item's rows are kept
// in scratch until their log-sum-exp is known, then written as probabilities.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_forward_cpu.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/elementary/dispatch.h"

#ifndef MEGA_ATTENTION_FORWARD_SCRATCH
#define MEGA_ATTENTION_FORWARD_SCRATCH
namespace megalith::kernels {
namespace {

/// Query rows of one head in an item: many, since each item packs the keys it sees once more, but
/// so that every thread gets some items.
int64_t forward_item_rows(const AttentionForward& a, int num_threads) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t all_rows = a.q_TND.num_rows * a.q_TND.num_heads;
  const int64_t goal = a.probabilities.absent() ? 384 : 48;
  const int64_t rows = std::min(goal, all_rows / (8 * num_threads)) / q_per_kv / 24 * 24;
  return std::max<int64_t>(24, rows);
}

/// One thread's scratch, in floats.
struct ForwardScratch {
  int64_t width;
  int64_t rows;
  int64_t scores_row;  // 0, or the length of a row of kept scores
  ForwardScratch(const AttentionForward& a, int64_t item_rows)
      : width(padded_head_size(a.q_TND.head_size)),
        rows(a.q_TND.num_heads / a.k_TKD.num_heads * item_rows),
        scores_row(
            a.probabilities.absent() ? 0 : round_up(longest(key_offsets(a.sequences)), kKeyBlock)) {
  }
  int64_t block() const { return kKeyBlock * width; }
  int64_t floats() const {
    return 2 * rows * width + 2 * round_up<int64_t>(rows, 16) + 3 * block() + rows * scores_row;
  }
};

}  // namespace
}  // namespace megalith::kernels
#endif  // MEGA_ATTENTION_FORWARD_SCRATCH

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

/// Probabilities of row (query, head) from its scores, kept in the blocks that make up `known`.
HWY_INLINE void write_probabilities(const AttentionForward& a, int64_t base, const Sight& sight,
                                    int64_t head, int64_t query, const float* scores, Range known,
                                    float lse) {
  const FloatVec shift = hn::Set(FloatTag(), lse);
  const int64_t length = sight.keys;
  const auto write = [&]<class T>(T* out) HWY_ATTR {
    for (int64_t j = 0; j < length; j += kFloatLanes) {
      FloatVec p = hn::Zero(FloatTag());
      if (j >= known.begin && j < known.end)
        p = elementary::exp<SimdOps>(hn::Sub(load(scores + j), shift));
      if (j + kFloatLanes <= length) {
        store(p, out + j);
      } else {
        store_some(p, out + j, length - j);
      }
    }
  };
  const int64_t offset = base + (head * sight.queries + query) * length;
  if (a.probabilities.dtype() == DType::f16) {
    write(a.probabilities.as<f16_t>() + offset);
  } else {
    write(a.probabilities.as<float>() + offset);
  }
}

struct ForwardState {
  QueryRows rows;
  float* keys_JD;
  float* keys_DJ;
  float* values_JD;
  float* scores;
};

void forward_finish(const AttentionForward& a, const AttentionItem& item, const ForwardState& state,
                    const ForwardScratch& layout, const SequenceRows& sequence) {
  const int64_t num_queries = item.end - item.begin;
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const int64_t row_begin = sequence.query_row;
  const int64_t base = layout.scores_row == 0
                           ? 0
                           : probabilities_offset(a.sequences, item.sequence, a.q_TND.num_heads);
  for (int64_t r = 0; r < q_per_kv * num_queries; ++r) {
    const int64_t query = item.begin + r % num_queries;
    const int64_t head = item.group * q_per_kv + r / num_queries;
    if (r + 8 < q_per_kv * num_queries && query + 8 < item.end) {
      prefetch_output(a.y_TND, row_begin + query + 8, head);
    }
    const float lse = finish_row(state.rows, r, a.y_TND, row_begin + query, head);
    if (!a.lse_NT.absent()) a.lse_NT.row<float>(head)[row_begin + query] = lse;
    if (layout.scores_row > 0) {
      const float* scores = state.scores + r * layout.scores_row;
      // Blocks that this row's chunk skipped were not written; the row sees nothing in them.
      const Range seen = sequence.sight.keys_of(query);
      const Range known{block_start(seen.begin), round_up(seen.end, kKeyBlock)};
      write_probabilities(a, base, sequence.sight, head, query, scores, known, lse);
    }
  }
}

void forward_item(const AttentionForward& a, const ScoreRule& rule, const ForwardScratch& layout,
                  const AttentionItem& item, float* scratch) {
  const SequenceRows sequence = rows_of(a.sequences, item.sequence);
  const int64_t num_queries = item.end - item.begin;
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  const auto take = [&](int64_t floats) HWY_ATTR {
    float* part = scratch;
    scratch += floats;
    return part;
  };
  const int64_t width = layout.width, padded_rows = round_up<int64_t>(layout.rows, 16);
  ForwardState state;
  float* q = take(layout.rows * width);
  float* sum = take(layout.rows * width);
  float* max = take(padded_rows);
  float* norm = take(padded_rows);
  state.rows = {q, sum, max, norm, a.q_TND.head_size, width};
  state.keys_JD = take(layout.block());
  state.keys_DJ = take(layout.block());
  state.values_JD = take(layout.block());
  state.scores = take(layout.rows * layout.scores_row);

  for (int64_t h = 0; h < q_per_kv; ++h) {
    pack_rows(a.q_TND, sequence.query_row + item.begin, item.group * q_per_kv + h, num_queries,
              width, q + h * num_queries * width);
  }
  start_rows(state.rows, q_per_kv * num_queries);
  const SequenceDropout dropout(a.sequences, a.dropout, item.sequence);
  const RowsPlace place{q_per_kv, num_queries, item.group * q_per_kv, item.begin, sequence.sight};
  const Range known = sequence.sight.keys_of(Range{item.begin, item.end});
  const int64_t length = sequence.sight.keys;
  for (int64_t first_key = block_start(known.begin); first_key < known.end;
       first_key += kKeyBlock) {
    const int64_t num_keys = std::min(kKeyBlock, length - first_key);
    const int64_t row = sequence.key_row + first_key;
    pack_rows(a.k_TKD, row, item.group, num_keys, width, state.keys_JD);
    transpose_block(state.keys_JD, num_keys, a.q_TND.head_size, width, state.keys_DJ);
    pack_rows(a.v_TKD, row, item.group, num_keys, width, state.values_JD);
    if (const int64_t next = first_key + kKeyBlock; next < known.end) {
      const int64_t count = std::min(kKeyBlock, length - next);
      prefetch_rows(a.k_TKD, row + kKeyBlock, item.group, count);
      prefetch_rows(a.v_TKD, row + kKeyBlock, item.group, count);
    }
    attend_block(state.rows, place, first_key, num_keys, Right<float>{state.keys_DJ, kKeyBlock},
                 Right<float>{state.values_JD, width}, rule, dropout,
                 layout.scores_row > 0 ? state.scores : nullptr, layout.scores_row);
  }
  // Without keys: y = 0 / 1, lse = -inf + log 1.
  if (length == 0) std::fill(norm, norm + layout.rows, 1.0f);
  forward_finish(a, item, state, layout, sequence);
}

}  // namespace

void run_forward_item(const AttentionForward& a, const ScoreRule& rule,
                      const ForwardScratch& layout, const AttentionItem& item, float* scratch) {
  forward_item(a, rule, layout, item, scratch);
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

int64_t attention_forward_scratch(const Exec& exec, const AttentionForward& a) {
  const int64_t step = forward_item_rows(a, exec.device.target().num_threads);
  return distance_bias_bytes(a.bias, longest_sequence(a)) +
         items_scratch_bytes(exec, ForwardScratch(a, step).floats());
}

void attention_forward_blocks(Exec& exec, const AttentionForward& a) {
  const int64_t step = forward_item_rows(a, exec.device.target().num_threads);
  const ForwardScratch layout(a, step);
  const std::vector<AttentionItem> items = forward_items(a.sequences, a.k_TKD.num_heads, step);
  const ScoreRule rule(a.scale, a.softcap, spread_bias(a.bias, longest_sequence(a), exec.scratch));
  run_items(exec, items, layout.floats(),
            exec.scratch + distance_bias_bytes(a.bias, longest_sequence(a)),
            [&](const AttentionItem& item, float* scratch) {
              MEGA_CALL_SIMD(exec, attention::run_forward_item, a, rule, layout, item, scratch);
            });
}

}  // namespace megalith::kernels
#endif
