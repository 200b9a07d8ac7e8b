// SPDX-License-Identifier: Apache-2.0
// From the fused projection's output to the heads that attention takes: which of them this rank
// has, what it shares with its neighbours, norms and positions.
#include <algorithm>
#include <cmath>

#include "layers/attention.h"
#include "layers/rotary.h"
#include "parallel/rank_blocks.h"

namespace megalith::layers {

using kernels::HeadsView;

Attention::Heads Attention::heads_of(const Context& context) const {
  const int64_t ranks = context.tensor.size();
  const int64_t size = spec_.head_dim;
  const int64_t queries = exact_div(spec_.heads, ranks);
  const double scale = spec_.scale > 0 ? spec_.scale : 1.0 / std::sqrt(static_cast<double>(size));
  const int64_t sharers = std::max<int64_t>(1, ranks / spec_.kv_heads);
  const int64_t kv = exact_div(spec_.kv_heads * sharers, ranks);
  return {.queries = queries,
          .kv = kv,
          .size = size,
          .begin = context.tensor.rank() * queries,
          .scale = static_cast<float>(scale),
          .sharers = static_cast<int>(sharers),
          .kv_partials = std::max<int64_t>(1, context.local_shards() / kv),
          .own_columns = qkv_.local_outputs(),
          .first_shared = queries * size};
}

/// The parts of the one key and value that this rank shares with its neighbours: its own lies
/// behind the queries, all of them will.
void Attention::gather_shared(Context& context, View qkv_TC) const {
  const Heads h = heads_of(context);
  if (h.sharers == 1) return;
  const int64_t tokens = qkv_TC.size(0), part = h.own_columns - h.first_shared;
  const device::Tensor parts = context.workspace(qkv_TC.dtype(), Shape{h.sharers * tokens, part});
  const auto columns = [&](int j) { return qkv_TC.columns(h.first_shared + j * part, part); };
  const int rank = context.tensor.rank() % h.sharers;
  context.device().copy(parts.view.rows(rank * tokens, tokens), columns(0));
  parallel::gather_in_block(context.tensor, h.sharers,
                            parts.view.reshape(Shape{h.sharers, tokens * part}), "attention.kv");
  for (int j = 0; j < h.sharers; ++j)
    context.device().copy(columns(j), parts.view.rows(j * tokens, tokens));
}

/// Queries and keys at their positions, in place; `inverse` takes gradients back.
void Attention::turn(Context& context, const Batch& batch, HeadsView q_TND, HeadsView k_TKD,
                     bool inverse) const {
  const RopeSpec& rope = spec_.rope;
  if (rope.dim == 0) return;
  const device::Tensor angles =
      context.workspace(context.accumulation, Shape{batch.num_tokens, rope.dim});
  const auto fill = [&](int64_t begin, int64_t count, int64_t length) {
    kernels::rotary_angles(context.exec,
                           {.position_T = batch.position_T.rows(begin, count),
                            .frequencies = rotary_frequencies(rope, context_length_, length),
                            .angles_TA = angles.view.rows(begin, count)});
  };
  if (!depends_on_length(rope.scaling)) {
    fill(0, batch.num_tokens, context_length_);
  } else {
    for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
      const int64_t begin = batch.cu_seqlens[s], count = batch.cu_seqlens[s + 1] - begin;
      fill(begin, count, batch.reach.empty() ? count : batch.reach[s]);
    }
  }
  const auto style =
      rope.interleaved ? kernels::RotaryStyle::interleaved : kernels::RotaryStyle::half;
  for (const HeadsView& x : {q_TND, k_TKD})
    kernels::rotary_apply(context.exec, {x, angles, style, inverse});
}

/// The norms of queries and keys, into prepared.qk_TC: [T, (N + K) D / t], queries first.
void Attention::normalise(Context& context, View qkv_TC, Prepared& prepared,
                          AttentionSaved* saved) const {
  const Heads h = heads_of(context);
  prepared.qk_TC =
      context.workspace(context.activation, Shape{qkv_TC.size(0), (h.queries + h.kv) * h.size});
  const View qk = prepared.qk_TC;
  const HeadsView q = kernels::heads(qk.columns(0, h.queries * h.size), h.queries, h.size);
  const HeadsView k = kernels::heads(qk.columns(h.queries * h.size, h.kv * h.size), h.kv, h.size);
  q_norm_->forward(context, prepared.q_TND, q, saved != nullptr ? &saved->q_norm : nullptr);
  k_norm_->forward(context, prepared.k_TKD, k, saved != nullptr ? &saved->k_norm : nullptr);
  prepared.q_TND = q;
  prepared.k_TKD = k;
}

Attention::Prepared Attention::prepare(Context& context, const Batch& batch, View qkv_TC,
                                       AttentionSaved* saved) const {
  const Heads h = heads_of(context);
  Prepared prepared{{},
                    kernels::queries(qkv_TC, h.queries, h.kv, h.size),
                    kernels::keys(qkv_TC, h.queries, h.kv, h.size),
                    kernels::values(qkv_TC, h.queries, h.kv, h.size)};
  if (q_norm_) normalise(context, qkv_TC, prepared, saved);
  turn(context, batch, prepared.q_TND, prepared.k_TKD, false);
  return prepared;
}

}  // namespace megalith::layers
