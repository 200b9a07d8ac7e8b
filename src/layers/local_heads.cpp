// SPDX-License-Identifier: Apache-2.0
#include "layers/local_heads.h"

#include <algorithm>
#include <cmath>

#include "parallel/rank_blocks.h"

namespace megalith::layers {

LocalHeads local_heads(const AttentionSpec& spec, const Context& context) {
  const int64_t ranks = context.tensor.size();
  const int64_t queries = exact_div(spec.heads, ranks);
  const double scale =
      spec.scale > 0 ? spec.scale : 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  const int64_t sharers = std::max<int64_t>(1, ranks / spec.kv_heads);
  const int64_t kv = exact_div(spec.kv_heads * sharers, ranks);
  return {.queries = queries,
          .kv = kv,
          .size = spec.head_dim,
          .begin = context.tensor.rank() * queries,
          .scale = static_cast<float>(scale),
          .sharers = static_cast<int>(sharers),
          .kv_partials = std::max<int64_t>(1, context.local_shards() / kv)};
}

void gather_shared(Context& context, const LocalHeads& heads, View shared_TC) {
  const int64_t tokens = shared_TC.size(0);
  const int64_t part = exact_div<int64_t>(shared_TC.size(1), heads.sharers);
  const device::Tensor parts =
      context.workspace(shared_TC.dtype(), Shape{heads.sharers * tokens, part});
  const int rank = context.tensor.rank() % heads.sharers;
  context.device().copy(parts.view.rows(rank * tokens, tokens), shared_TC.columns(0, part));
  parallel::gather_in_block(context.tensor, heads.sharers,
                            parts.view.reshape(Shape{heads.sharers, tokens * part}),
                            "attention.kv");
  for (int j = 0; j < heads.sharers; ++j)
    context.device().copy(shared_TC.columns(j * part, part), parts.view.rows(j * tokens, tokens));
}

void keep_own_part(Context& context, const LocalHeads& heads, View shared_TC) {
  const int64_t part = exact_div<int64_t>(shared_TC.size(1), heads.sharers);
  if (const int rank = context.tensor.rank() % heads.sharers; rank > 0)
    context.device().copy(shared_TC.columns(0, part), shared_TC.columns(rank * part, part));
}

}  // namespace megalith::layers
