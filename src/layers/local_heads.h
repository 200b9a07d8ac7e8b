// SPDX-License-Identifier: Apache-2.0
// Which of an attention layer's heads a rank has, and what it shares with its neighbours
// (docs/design/0007-grouped-keys.md).
#pragma once

#include <array>

#include "kernels/attention/heads_view.h"
#include "layers/context.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

struct LocalHeads {
  int64_t queries, kv, size, begin;  // begin: number of the first query head
  float scale;                       // of scores
  int sharers;                       // ranks that have the same key/value head
  int64_t kv_partials;               // canonical shards of each key/value head, here
};
LocalHeads local_heads(const AttentionSpec& spec, const Context& context);

/// Queries and keys; either may be absent.
using QueriesAndKeys = std::array<kernels::HeadsView, 2>;
using ConstQueriesAndKeys = std::array<kernels::ConstHeadsView, 2>;

/// The columns of a key and value that `heads.sharers` ranks share: [T, 2 D], of which this rank
/// has its part, in the first columns. Fills in the others' in their order. Collective over them.
void gather_shared(Context& context, const LocalHeads& heads, View shared_TC);
/// The way back: this rank's part of whole columns goes to the first ones.
void keep_own_part(Context& context, const LocalHeads& heads, View shared_TC);

}  // namespace megalith::layers
