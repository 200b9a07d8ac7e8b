// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_work.h"

#include <algorithm>

#include "kernels/attention/kv_cache_layout.h"

namespace megalith::kernels {

namespace {

/// 0 + 1 + ... + (n - 1).
int64_t sum_below(int64_t n) { return n * (n - 1) / 2; }

}  // namespace

int64_t Sight::pairs(int64_t begin, int64_t end) const {
  // From query `full` on the last key is in sight, from `cut` on the first is not.
  const int64_t full = std::clamp(keys - right - 1, begin, end);
  const int64_t cut = std::clamp(left, begin, end);
  const int64_t up_to_full =
      full == begin ? 0 : sum_below(full) - sum_below(begin) + (full - begin) * (right + 1);
  const int64_t hidden = cut == end ? 0 : sum_below(end) - sum_below(cut) - (end - cut) * left;
  return up_to_full + (end - full) * keys - hidden;
}

SequenceRows rows_of(const AttentionSequences& sequences, int64_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  const std::span<const int32_t> queries = sequences.cu_seqlens, keys = key_offsets(sequences);
  const auto bound = [](int64_t window) { return window < 0 ? kUnlimited : window; };
  return {queries[s],
          keys[s],
          {queries[s + 1] - queries[s], keys[s + 1] - keys[s], bound(sequences.window_left),
           sequences.causal ? 0 : bound(sequences.window_right)}};
}

int64_t probabilities_offset(const AttentionSequences& sequences, int64_t sequence,
                             int64_t num_heads) {
  const auto count = static_cast<size_t>(sequence) + 1;
  return attention_probabilities_elements(sequences.cu_seqlens.first(count), num_heads,
                                          key_offsets(sequences).first(count));
}

std::vector<AttentionItem> forward_items(const AttentionSequences& sequences, int64_t num_kv_heads,
                                         int64_t step) {
  std::vector<AttentionItem> items;
  for (int64_t s = 0; s < num_sequences(sequences); ++s) {
    const Sight sight = rows_of(sequences, s).sight;
    for (int64_t group = 0; group < num_kv_heads; ++group) {
      for (int64_t i = 0; i < sight.queries; i += step) {
        const int64_t end = std::min(i + step, sight.queries);
        items.push_back({.sequence = s,
                         .group = group,
                         .begin = i,
                         .end = end,
                         .cost = static_cast<double>(sight.pairs(i, end))});
      }
    }
  }
  return items;
}

std::vector<AttentionItem> cached_items(const AttentionCached& a, int64_t step) {
  std::vector<AttentionItem> items;
  for (size_t s = 0; s < a.sequences.past.size(); ++s) {
    const auto sequence = static_cast<int64_t>(s);
    const Sight sight = sight_of(a, sequence);
    for (int64_t group = 0; group < a.shape.num_kv_heads; ++group) {
      for (int64_t i = a.sequences.past[s]; i < sight.keys; i += step) {
        const int64_t end = std::min(i + step, sight.keys);
        items.push_back({.sequence = sequence,
                         .group = group,
                         .begin = i,
                         .end = end,
                         .cost = static_cast<double>(sight.pairs(i, end))});
      }
    }
  }
  return items;
}

std::vector<AttentionItem> backward_items(const AttentionBackward& a, BackwardPass pass,
                                          int64_t block) {
  std::vector<AttentionItem> items;
  const bool by_queries = pass == BackwardPass::queries;
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  for (int64_t s = 0; s < num_sequences(a.sequences); ++s) {
    const Sight sight = rows_of(a.sequences, s).sight;
    const Sight seen_by = by_queries ? sight : sight.mirrored();
    const int64_t length = seen_by.queries;
    const bool whole = pass == BackwardPass::all;
    // A whole sequence is one item even if it has queries or keys alone: their gradients are zeros.
    const int64_t step = whole ? length : block;
    const int64_t parts =
        whole ? std::min<int64_t>(1, sight.queries + sight.keys) : ceil_div(length, block);
    for (int64_t group = 0; group < a.k_TKD.num_heads; ++group) {
      for (int64_t h = 0; h < (by_queries ? q_per_kv : 1); ++h) {
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t begin = part * step, end = std::min(begin + step, length);
          items.push_back({.sequence = s,
                           .group = group,
                           .head = group * q_per_kv + h,
                           .begin = begin,
                           .end = end,
                           .cost = static_cast<double>(seen_by.pairs(begin, end) *
                                                       (by_queries ? 1 : q_per_kv))});
        }
      }
    }
  }
  return items;
}

void run_backward_passes(const Exec& exec, const AttentionBackward& a, int64_t block,
                         FunctionRef<void(BackwardPass, std::span<const AttentionItem>)> run) {
  const int num_threads = exec.device.target().num_threads;
  const auto all = backward_items(a, BackwardPass::all, block);
  const auto by_keys = backward_items(a, BackwardPass::keys, block);
  const auto by_queries = backward_items(a, BackwardPass::queries, block);
  const auto time = [&](const std::vector<AttentionItem>& items, double products) {
    return products * largest_cost(items, split_by_cost(items, num_threads));
  };
  if (time(all, 5) <= time(by_keys, 4) + time(by_queries, 3)) {
    run(BackwardPass::all, all);
  } else {
    run(BackwardPass::keys, by_keys);
    run(BackwardPass::queries, by_queries);
  }
}

std::vector<Range> split_by_cost(std::span<const AttentionItem> items, int num_threads) {
  double total = 0;
  for (const AttentionItem& item : items) total += item.cost;
  std::vector<Range> parts(static_cast<size_t>(num_threads));
  const auto count = static_cast<int64_t>(items.size());
  int64_t next = 0;
  double before = 0;
  for (int part = 0; part < num_threads; ++part) {
    const double goal = total * (part + 1) / num_threads;
    const int64_t first = next;
    // An item goes to the part in which its middle lies.
    while (next < count && (part + 1 == num_threads ||
                            before + items[static_cast<size_t>(next)].cost / 2 <= goal)) {
      before += items[static_cast<size_t>(next++)].cost;
    }
    parts[static_cast<size_t>(part)] = {first, next};
  }
  return parts;
}

double largest_cost(std::span<const AttentionItem> items, std::span<const Range> parts) {
  double largest = 0;
  for (const Range& part : parts) {
    double cost = 0;
    for (int64_t i = part.begin; i < part.end; ++i) cost += items[static_cast<size_t>(i)].cost;
    largest = std::max(largest, cost);
  }
  return largest;
}

namespace {

/// Floats from one thread's part to the next: a cache line lies between.
int64_t thread_stride(int64_t scratch_floats) { return round_up<int64_t>(scratch_floats, 16) + 16; }

}  // namespace

int64_t items_scratch_bytes(const Exec& exec, int64_t scratch_floats) {
  return thread_stride(scratch_floats) * exec.device.target().num_threads * bytes_of(DType::f32);
}

void run_items(Exec& exec, std::span<const AttentionItem> items, int64_t scratch_floats,
               std::byte* scratch, FunctionRef<void(const AttentionItem&, float*)> body) {
  if (items.empty()) return;
  const int num_threads = exec.device.target().num_threads;
  const int64_t stride = thread_stride(scratch_floats);
  const std::vector<Range> parts = split_by_cost(items, num_threads);
  exec.device.pool().run([&](int thread) {
    const Range part = parts[static_cast<size_t>(thread)];
    float* own = reinterpret_cast<float*>(scratch) + thread * stride;
    for (int64_t i = part.begin; i < part.end; ++i) body(items[static_cast<size_t>(i)], own);
  });
}

namespace {

int64_t deltas_bytes(const AttentionBackward& a) {
  return round_up(a.q_TND.num_heads * a.q_TND.num_rows * bytes_of(DType::f32), device::kAlignment);
}

}  // namespace

BackwardCommon::BackwardCommon(Exec& exec, const AttentionBackward& a, int64_t block)
    : delta_NT(exec.scratch, DType::f32, Shape{a.q_TND.num_heads, a.q_TND.num_rows}),
      rule(a.scale, a.softcap,
           spread_bias(a.bias, longest_sequence(a), exec.scratch + deltas_bytes(a))),
      bias_sums(a, block,
                exec.scratch + deltas_bytes(a) + distance_bias_bytes(a.bias, longest_sequence(a))),
      scratch(exec.scratch + bytes(a, block)) {
  attention_deltas(exec, a, delta_NT);
}

int64_t BackwardCommon::bytes(const AttentionBackward& a, int64_t block) {
  return deltas_bytes(a) + distance_bias_bytes(a.bias, longest_sequence(a)) +
         BiasSums::bytes(a, block);
}

int64_t backward_scratch_bytes(const Exec& exec, const AttentionBackward& a, int64_t block,
                               FunctionRef<int64_t(BackwardPass)> floats) {
  if (a.q_TND.num_rows == 0 && a.k_TKD.num_rows == 0) return 0;
  int64_t most = 0;
  run_backward_passes(exec, a, block, [&](BackwardPass pass, std::span<const AttentionItem>) {
    most = std::max(most, floats(pass));
  });
  return BackwardCommon::bytes(a, block) + items_scratch_bytes(exec, most);
}

void check_cu_seqlens(std::span<const int32_t> cu_seqlens, int64_t num_rows) {
  MEGA_CHECK(!cu_seqlens.empty() && cu_seqlens.front() == 0, "cu_seqlens must start with 0");
  MEGA_CHECK(std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()), "cu_seqlens must not fall");
  MEGA_CHECK_EQ(int64_t{cu_seqlens.back()}, num_rows);
}

void check_heads(const ConstHeadsView& x, int64_t num_rows, int64_t num_heads, int64_t head_size,
                 DType dtype, std::string_view name) {
  MEGA_CHECK(x.num_rows == num_rows && x.num_heads == num_heads && x.head_size == head_size,
             "{} is [{}, {}, {}] and not [{}, {}, {}]", name, x.num_rows, x.num_heads, x.head_size,
             num_rows, num_heads, head_size);
  MEGA_CHECK(x.dtype == dtype, "{} is {} and not {}", name, x.dtype, dtype);
  MEGA_CHECK(!x.absent() || num_rows == 0, "{} is absent", name);
}

int64_t longest(std::span<const int32_t> cu_seqlens) {
  int64_t length = 0;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    length = std::max<int64_t>(length, cu_seqlens[s + 1] - cu_seqlens[s]);
  }
  return length;
}

int64_t attention_probabilities_elements(std::span<const int32_t> cu_seqlens, int64_t num_heads,
                                         std::span<const int32_t> cu_seqlens_keys) {
  const std::span<const int32_t> keys = cu_seqlens_keys.empty() ? cu_seqlens : cu_seqlens_keys;
  int64_t elements = 0;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    elements += int64_t{cu_seqlens[s + 1] - cu_seqlens[s]} * (keys[s + 1] - keys[s]);
  }
  return elements * num_heads;
}

int64_t attention_pairs(const AttentionSequences& sequences) {
  int64_t pairs = 0;
  for (int64_t s = 0; s < num_sequences(sequences); ++s) {
    const Sight sight = rows_of(sequences, s).sight;
    pairs += sight.pairs(0, sight.queries);
  }
  return pairs;
}

}  // namespace megalith::kernels
