// SPDX-License-Identifier: Apache-2.0
// How attention on the CPU is cut into items, and which thread does which: a pure function of shape
// and thread count. No two items write the same element, so no result depends on the cut. Internal.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_bias.h"
#include "kernels/attention/kv_cache.h"

namespace megalith::kernels {

/// A window without a limit (but far from overflow).
inline constexpr int64_t kUnlimited = int64_t{1} << 60;

/// Which keys of its sequence a query sees: those with i - left <= j <= i + right.
struct Sight {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t left = kUnlimited;
  int64_t right = kUnlimited;

  Range keys_of(int64_t i) const {
    return {std::clamp<int64_t>(i - left, 0, keys), std::clamp<int64_t>(i + right + 1, 0, keys)};
  }
  /// The keys that at least one of the queries [begin, end) sees; there must be a query.
  Range keys_of(Range rows) const { return {keys_of(rows.begin).begin, keys_of(rows.end - 1).end}; }
  /// The keys that each of the queries [begin, end) sees.
  Range seen_by_all(Range rows) const {
    return {keys_of(rows.end - 1).begin, keys_of(rows.begin).end};
  }
  /// True if each of these queries sees each of these keys.
  bool all_see_all(Range rows, Range positions) const {
    const Range seen = seen_by_all(rows);
    return seen.end >= positions.end && seen.begin <= positions.begin;
  }
  /// The mask the other way round: which queries see a key.
  Sight mirrored() const { return {keys, queries, right, left}; }
  /// The number of pairs of a query in [begin, end) and a key that it sees.
  int64_t pairs(int64_t begin, int64_t end) const;
};

/// Scores from dot products: scale * x, or with a softcap c * tanh(x * (scale / c)), or with biases
/// scale * x + b.
struct ScoreRule {
  float scale = 1;
  float softcap = 0;
  float inner = 0;
  DistanceBias bias;

  ScoreRule(float by, float cap, const DistanceBias& biases = {})
      : scale(by), softcap(cap), inner(cap > 0 ? by / cap : 0), bias(biases) {}
  /// What dot products are multiplied by first.
  float factor() const { return softcap > 0 ? inner : scale; }
};

/// One sequence of a call.
struct SequenceRows {
  int64_t query_row = 0;  // of the call
  int64_t key_row = 0;
  Sight sight;
};
/// Where the sequences of keys begin.
inline std::span<const int32_t> key_offsets(const AttentionSequences& sequences) {
  return sequences.cu_seqlens_keys.empty() ? sequences.cu_seqlens : sequences.cu_seqlens_keys;
}
inline int64_t num_sequences(const AttentionSequences& sequences) {
  return std::ssize(sequences.cu_seqlens) - 1;
}
/// True if some key is hidden from a query by its distance (not just by being later, if causal).
inline bool has_window(const AttentionSequences& sequences) {
  return sequences.window_left >= 0 || (!sequences.causal && sequences.window_right >= 0);
}
SequenceRows rows_of(const AttentionSequences& sequences, int64_t sequence);
/// Where the probabilities of a sequence start: element (head, i, j) is at
/// this + (head * queries + i) * keys + j.
int64_t probabilities_offset(const AttentionSequences& sequences, int64_t sequence,
                             int64_t num_heads);
/// The first position of the block that holds `position`.
constexpr int64_t block_start(int64_t position, int64_t block = kKeyBlock) {
  return position / block * block;
}

/// The part of `positions` inside the block of `count` at `first`, counted from `first`; 0, 0 if
/// there is none.
inline Range part_of_block(Range positions, int64_t first, int64_t count) {
  const Range part{std::max<int64_t>(positions.begin - first, 0),
                   std::min(positions.end - first, count)};
  return part.empty() ? Range{} : part;
}

/// Some rows of one sequence and of one group of query heads (those of one key/value head).
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
/// The same for the new tokens over a cache, counted by their positions in the sequence.
std::vector<AttentionItem> cached_items(const AttentionCached& a, int64_t step);
/// What a pass of backward computes: everything, or dk and dv, or dq.
enum class BackwardPass : uint8_t { all, keys, queries };
/// Backward's: whole sequences, or blocks of `block` keys or queries.
std::vector<AttentionItem> backward_items(const AttentionBackward& a, BackwardPass pass,
                                          int64_t block);
/// The passes that take the least time: one over everything (5 products), unless that leaves
/// threads idle; then one over keys (4 products) and one over queries (3). Calls run(pass, items).
void run_backward_passes(const Exec& exec, const AttentionBackward& a, int64_t block,
                         FunctionRef<void(BackwardPass, std::span<const AttentionItem>)> run);
/// What all passes of a call of backward share, in front of its scratch.
struct BackwardCommon {
  View delta_NT;  // f32 [N, T]
  ScoreRule rule;
  BiasSums bias_sums;
  std::byte* scratch;  // of the passes

  /// Fills all of it but the sums. `block`: of keys, by which they go.
  BackwardCommon(Exec& exec, const AttentionBackward& a, int64_t block);
  static int64_t bytes(const AttentionBackward& a, int64_t block);
};
/// delta_i = rowsum16 of fma chains of dy * y.
void attention_deltas(Exec& exec, const AttentionBackward& a, View delta_NT);

/// [first, last) item of each thread: contiguous, nearly equal in cost.
std::vector<Range> split_by_cost(std::span<const AttentionItem> items, int num_threads);
/// The largest cost of one part.
double largest_cost(std::span<const AttentionItem> items, std::span<const Range> parts);

/// Bytes of scratch in which run_items gives each thread this many floats.
int64_t items_scratch_bytes(const Exec& exec, int64_t scratch_floats);
/// Runs body(item, scratch of this thread) over all items on the device's threads.
void run_items(Exec& exec, std::span<const AttentionItem> items, int64_t scratch_floats,
               std::byte* scratch, FunctionRef<void(const AttentionItem&, float*)> body);
/// Bytes of backward's scratch when a thread needs floats(pass) in each of the passes that are run.
int64_t backward_scratch_bytes(const Exec& exec, const AttentionBackward& a, int64_t block,
                               FunctionRef<int64_t(BackwardPass)> floats);

/// Head sizes in blocks are padded to this many floats.
constexpr int64_t padded_head_size(int64_t head_size) { return round_up<int64_t>(head_size, 16); }
/// Checks that all entries share; the message says which view is wrong.
void check_cu_seqlens(std::span<const int32_t> cu_seqlens, int64_t num_rows);
void check_heads(const ConstHeadsView& x, int64_t num_rows, int64_t num_heads, int64_t head_size,
                 DType dtype, std::string_view name);

/// Longest sequence.
int64_t longest(std::span<const int32_t> cu_seqlens);

/// Copies of the lengths of a call that outlive it.
class SequenceLists {
 public:
  explicit SequenceLists(std::span<const int32_t>& first, std::span<const int32_t>& second)
      : first_(first.begin(), first.end()), second_(second.begin(), second.end()) {
    first = first_;
    second = second_;
  }

 private:
  std::vector<int32_t> first_, second_;
};

// The CPU implementations (attention_forward_cpu.cpp, attention_backward_cpu.cpp,
// kv_cache_cpu.cpp). With `probabilities` given, the forward and backward ones write and read them.
void attention_forward_blocks(Exec& exec, const AttentionForward& arguments);
void attention_backward_blocks(Exec& exec, const AttentionBackward& arguments);
void attention_cached_blocks(Exec& exec, const AttentionCached& arguments);
int64_t attention_forward_scratch(const Exec& exec, const AttentionForward& arguments);
int64_t attention_backward_scratch(const Exec& exec, const AttentionBackward& arguments);
int64_t attention_cached_scratch(const Exec& exec, const AttentionCached& arguments);
void kv_cache_append_blocks(Exec& exec, const KvCacheAppend& arguments);
// The specification (attention_reference.cpp, kv_cache_reference.cpp).
void attention_forward_reference(Exec& exec, const AttentionForward& arguments);
void attention_backward_reference(Exec& exec, const AttentionBackward& arguments);
void attention_cached_reference(Exec& exec, const AttentionCached& arguments);
void kv_cache_append_reference(Exec& exec, const KvCacheAppend& arguments);

}  // namespace megalith::kernels
