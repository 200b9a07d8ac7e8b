// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention over ragged sequences, with grouped key/value heads:
//   y_i   = sum_j p_ij v_j
//   p_ij  = exp(scale * q_i.k_j - lse_i)
//   lse_i = log sum_j exp(scale * q_i.k_j)
// Here j runs over the keys that query i sees: those of its own sequence (in cross attention, of
// the sequence of keys with the same number) with i - left <= j <= i + right, positions counted in
// the sequence; causal means right = 0. Query head h reads key/value head h / (N/K). With a softcap
// c (Gemma 2) the score scale * q_i.k_j becomes c * tanh(scale * q_i.k_j / c). With a bias (T5) it
// becomes scale * q_i.k_j + b[bucket(j - i), h].
//
// Arithmetic (exact) over f32 heads: keys go in blocks of kKeyBlock from the sequence's position 0.
// Per query row a running maximum m, sum l and accumulator acc (Milakov & Gimelshein 2018; Dao et
// al. 2022):
//   x_j   = chain_d fma(q_d, k_jd)
//   s_j   = scale * x_j,  or with a softcap  c * t_j,  t_j = tanh(x_j * (scale / c)),
//           or with a bias  (scale * x_j) + b, both steps rounded
//   m'    = max(m, max_j s_j)
//   a     = exp(m - m')
//   p_j   = exp(s_j - m')
//   l     = l * a + rowsum16(p)
//   acc_d = chain_j fma(p_j, v_jd, acc_d * a)
// Keys that i does not see are skipped, and at the end
//   y     = acc / l + 0
//   lse   = m + log(l)
// rowsum16: lane j % 16, then a tree. So a row's bits depend neither on the other rows of its call
// nor on threads, blocking or instruction set, and a cached decode (kv_cache.h) gives the bits of
// the whole sequence.
//
// Backward, with ~ for what dropout leaves:
//   delta_i = rowsum16 of fma chains of dy_i * y_i
//   p_ij    = exp(s_ij - lse_i)
//   dp_ij   = chain_d fma(dy_id, v_jd)
//   ds_ij   = (p_ij * (dp~_ij - delta_i)) * scale,  or with a softcap  * (scale * fma(-t, t, 1))
//   dv_j    = chain_i fma(p~_ij, dy_i)
//   dk_j    = chain_i fma(ds_ij, q_i)
//   dq_i    = chain_j fma(ds_ij, k_j)
// Chains over i go head by head through a group (or through a run of its heads: kv_partials). Pairs
// of blocks in which no query sees a key cost nothing. The gradient of a bias sums, for each block
// of keys by itself,
//   g_d   = chain_i + (p_ij * (dp~_ij - delta_i)),  j = i + d in the block
//   g_b   = chain_d + g_d  over the distances d of bucket b
// and then db_b = chain + g_b over the sequences and their blocks, from what is there already. So
// calls that follow each other give what one call of all their sequences gives.
//
// f16 heads widen exactly, and only results are rounded; backward takes p from q, k and lse even
// where `probabilities` are given.
// Over bf16 heads: the same, in blocks of kBf16KeyBlock keys, where
//   - every chain is a bf16 chain (math/bf16_chain.h): pairs of neighbours, over keys and queries
//     counted from position 0 of the sequence, odd ends (of d, and of each head's queries) filled
//     up with zeros. Everything else is IEEE arithmetic in f32 with denormals;
//   - what a chain multiplies is rounded to bf16: p~_j in forward (l adds the unrounded p_j), p~_ij
//     and ds_ij in backward, denormals as zeros, else to nearest even; what a bias's gradient sums
//     is not rounded;
//   - of a key that i does not see, p and ds are +0, which changes no finite sum. A NaN or infinity
//     in such a key's value (or in dy or q of a query that does not see a key) may come through
//     near the edge of what is seen: within kBf16KeyBlock positions, never across sequences;
//   - backward takes p from q, k and lse even where `probabilities` are given.
// `fast` numerics have no other arithmetic.
#pragma once

#include <span>

#include "kernels/attention/heads_view.h"
#include "kernels/attention/relative_buckets.h"
#include "kernels/exec.h"

namespace megalith::kernels {

/// Keys per block, part of the arithmetic. (The key/value cache of all heads has the first's.)
inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kBf16KeyBlock = 128;

/// Dropout of the probabilities in the product with the values (lse is that of the undropped ones).
/// The probability of query position i and key position j (counted in the sample) under global head
/// h is kept iff
///   word j % 4 of philox(key, i << 32 | j / 4, sample << 16 | h) >= floor(p * 2^32)
/// and then multiplied by f32(1 / (1 - p)). Heads < 2^16, positions < 2^32, samples < 2^48. In
/// cross attention keys are counted in their own sequence.
struct AttentionDropout {
  float p = 0;
  uint64_t key = 0;        // (seed, step, layer, site)
  ConstView sample_S;      // i64 [sequences]: global sample that the sequence belongs to
  ConstView position_S;    // i64 [sequences]: position in that sample of the sequence's first token
  int64_t head_begin = 0;  // global number of the first local query head
};

/// What the call's rows are.
struct AttentionSequences {
  std::span<const int32_t> cu_seqlens;  // host: sequence s is rows [cu[s], cu[s+1]); cu.back() = T
  // i32 [sequences + 1]: the same, for kinds that cannot read host memory (required there, else may
  // be absent).
  ConstView cu_seqlens_device;
  bool causal = true;  // right = 0
  // Query i sees its sequence's keys j with i - window_left <= j <= i + window_right; -1: all on
  // that side (Beltagy et al. 2020). A causal window of w keys is window_left = w - 1.
  int64_t window_left = -1;
  int64_t window_right = -1;  // with `causal` -1 or 0
  // Cross attention: the rows of k and v have sequences of their own (host, as cu_seqlens and just
  // as many; absent: those of the queries). Queries of sequence s see all keys of sequence s; not
  // with `causal` nor a window. Without keys y = 0, lse = -inf, dq = 0; without queries dk and dv
  // are 0.
  std::span<const int32_t> cu_seqlens_keys = {};
  ConstView cu_seqlens_keys_device = {};  // as cu_seqlens_device
};

/// Biases of scores by the distance of key and query (Shaw et al. 2018; Raffel et al. 2020): not in
/// cross attention, nor with a softcap.
struct AttentionBias {
  ConstView table_BN;  // [buckets, N] f32, bf16 or f16 (f64 beside f64 heads); absent: none
  RelativeBuckets buckets;
};

/// All heads f32, or all bf16 (f64 for the reference); accumulation and softmax are f32.
struct AttentionForward {
  AttentionSequences sequences;
  float scale = 1;
  ConstHeadsView q_TND;
  ConstHeadsView k_TKD;
  ConstHeadsView v_TKD;
  HeadsView y_TND;     // overwritten; must not overlap q, k or v
  View lse_NT;         // f32 (f64 with f64 heads) [N, T], overwritten; absent in inference
  View probabilities;  // absent: streaming. Else 1-D, dtype of q, attention_probabilities_elements
                       // long: the undropped p, per sequence and head [queries, keys], overwritten
  AttentionDropout dropout;
  float softcap = 0;  // 0: none; scores stay within it
  AttentionBias bias = {};
};
/// Local; ready as of a later ticket, like all kernels. The caller chooses `materialised` by giving
/// `probabilities`; `streaming` never holds S x S.
void attention_forward(Exec& exec, const AttentionForward& arguments);

/// dq, dk and dv are overwritten; dk and dv may both be f32 (unrounded) beside heads of 16 bits. y
/// and lse are forward's: no score is above its lse.
/// `probabilities` are those that forward wrote, or absent: then they are recomputed from q, k and
/// lse. Both give the same bits.
struct AttentionBackward {
  AttentionSequences sequences;
  float scale = 1;
  ConstHeadsView q_TND;
  ConstHeadsView k_TKD;
  ConstHeadsView v_TKD;
  ConstHeadsView y_TND;
  ConstHeadsView dy_TND;
  ConstView lse_NT;
  ConstView probabilities;
  HeadsView dq_TND;
  HeadsView dk_TKD;
  HeadsView dv_TKD;
  AttentionDropout dropout;
  float softcap = 0;
  // The N/K query heads of each key/value head are cut, in order, into this many equal runs. A run
  // has chains of its own; dk and dv are the tree of kernels/reduction/tree_sum.h over the runs,
  // rounded once. So ranks that hold some runs each (a subtree) add up to the bits of one that
  // holds all, when dk and dv of a rank are f32.
  int64_t kv_partials = 1;
  AttentionBias bias = {};
  // Of the table: f32 (f64 beside f64 heads), ACCUMULATES. Absent: not wanted.
  View dtable_BN = {};
};
void attention_backward(Exec& exec, const AttentionBackward& arguments);

/// Elements of `probabilities`: num_heads * sum of lengths of queries times those of keys.
int64_t attention_probabilities_elements(std::span<const int32_t> cu_seqlens, int64_t num_heads,
                                         std::span<const int32_t> cu_seqlens_keys = {});
/// Exact number of (query, key) pairs of one head in which the query sees the key.
int64_t attention_pairs(const AttentionSequences& sequences);

}  // namespace megalith::kernels
