// SPDX-License-Identifier: Apache-2.0
// How attention on the CPU is cut into items, and which thread does which: a pure function of shape
// and thread count. Items never share an output element, so no result depends on the cut. Internal.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/kv_cache.h"

namespace megalith::kernels {

/// Some rows of one sequence and one group of query heads (those of one key/value head).
struct AttentionItem {
  int64_t sequence = 0;
  int64_t group = 0;
  int64_t head = 0;   // backward's query pass: one head of the group
  int64_t begin = 0;  // rows (queries or keys), counted in the sequence or call, [begin, end)
  int64_t end = 0;
  double cost = 0;  // pairs
};

/// Forward's: `step` rows (all heads of a group), counted from each sequence's first.
std::vector<AttentionItem> forward_items(const AttentionSequences& sequences, int64_t num_kv_heads,
                                         int64_t step);
/// What a pass of backward computes: everything, or dk and dv, or dq.
enum class BackwardPass : uint8_t { all, keys, queries };
/// Backward's: whole sequences, or blocks of `block` keys or queries.
std::vector<AttentionItem> backward_items(const AttentionBackward& a, BackwardPass pass,
                                          int64_t block);
/// The passes that take the least time: one over everything (5 products), unless that leaves
/// threads idle; then one over keys (4 products) and one over queries (3). run(pass, items).
void run_backward_passes(const Exec& exec, const AttentionBackward& a, int64_t block,
                         FunctionRef<void(BackwardPass, std::span<const AttentionItem>)> run);
/// delta_NT (f32 [N, T]), overwritten: delta_i = rowsum16 of fma chains of dy * y.
void attention_deltas(Exec& exec, const AttentionBackward& a, View delta_NT);

/// [first, last) item of each thread: contiguous, nearly equal in cost.
std::vector<Range> split_by_cost(std::span<const AttentionItem> items, int num_threads);
/// The largest sum of costs of one part.
double largest_cost(std::span<const AttentionItem> items, std::span<const Range> parts);

/// Runs body(item, scratch of this thread, thread) over all items on the device's threads.
/// Allocates the scratch from the workspace under any device kind; under `trace` runs nothing.
void run_items(Exec& exec, std::span<const AttentionItem> items, int64_t scratch_floats,
               FunctionRef<void(const AttentionItem&, float*)> body);

/// Head sizes in blocks are padded to this many floats.
constexpr int64_t padded_head_size(int64_t head_size) { return round_up<int64_t>(head_size, 16); }
/// Pairs of queries [begin, end) and the keys before and at them (causal) or all `length` keys.
double pairs_of_rows(int64_t begin, int64_t end, int64_t length, bool causal);

/// Checks shared by all entries; each says which view is wrong.
void check_cu_seqlens(std::span<const int32_t> cu_seqlens, int64_t num_rows);
void check_heads(const ConstHeadsView& x, int64_t num_rows, int64_t num_heads, int64_t head_size,
                 DType dtype, std::string_view name);

/// Longest sequence.
int64_t longest(std::span<const int32_t> cu_seqlens);

// The CPU implementations (attention_forward_cpu.cpp, attention_backward_cpu.cpp,
// kv_cache_cpu.cpp). With `probabilities` given, the forward and backward ones write and read them.
void attention_forward_blocks(Exec& exec, const AttentionForward& arguments);
void attention_backward_blocks(Exec& exec, const AttentionBackward& arguments);
void attention_cached_blocks(Exec& exec, const AttentionCached& arguments);
void kv_cache_append_blocks(Exec& exec, const KvCacheAppend& arguments);
// The specification (attention_reference.cpp, kv_cache_reference.cpp).
void attention_forward_reference(Exec& exec, const AttentionForward& arguments);
void attention_backward_reference(Exec& exec, const AttentionBackward& arguments);
void attention_cached_reference(Exec& exec, const AttentionCached& arguments);
void kv_cache_append_reference(Exec& exec, const KvCacheAppend& arguments);

}  // namespace megalith::kernels
