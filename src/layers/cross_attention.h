// SPDX-License-Identifier: Apache-2.0
// Cross attention (Vaswani et al. 2017, section 3.2.3): queries from the batch's rows, keys and
// values from those of another sequence, Batch::memory. No positions, not causal. The rows of the
// key/value projection go [key g, value g] head by head, so that a tensor rank's are contiguous;
// where there are more shards than heads each has a part of one, and ranks gather what these make,
// as in attention.h.
#pragma once

#include <string>

#include "layers/attention.h"

namespace megalith::layers {

struct CrossAttentionSaved {
  device::Tensor q_TC;   // [T, N D / t], before its norm
  device::Tensor kv_SC;  // [S, 2 k D], k = max(1, K / t), before the norm of keys
  AttentionCoreSaved core;
  QkNormsSaved norms;
};

class CrossAttention {
 public:
  /// Declares `name`.q, `name`.kv and `name`.output, and the norms of queries and keys.
  CrossAttention(parameters::ParameterSet& set, const std::string& name, const LayerPlace& place,
                 const AttentionConfig& config, const Partition& partition);

  /// y_TH = output projection, before dropout and residual. x_TH and y_TH: the rank's own tokens.
  /// `keep_probabilities` as in attention.h. Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
               CrossAttentionSaved* saved, bool keep_probabilities = true) const;
  /// dx_TH overwritten; the memory's gradient ACCUMULATES in batch.memory->gradient_TH, rounded
  /// once to activations before, and those of weights in theirs. x_TH is what forward was given.
  /// Collective over the tensor ranks.
  void backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                const CrossAttentionSaved& saved, View dx_TH) const;

  bool is_materialised() const { return spec_.materialised; }
  /// Inference: the keys (with their norm) and values of memory.rows_TH go to `cache`, whose
  /// sequences of this layer's group are the memory's. Collective over the tensor ranks.
  void keep(Context& context, const Memory& memory, const KvCacheBinding& cache) const;

 private:
  /// Columns of kv_SC here, one row per token of the memory.
  int64_t kv_columns(const Context& context) const;
  void project(Context& context, const Memory& memory, View kv_SC) const;
  /// The heads in both projections' outputs.
  AttentionOperands heads_in(const Context& context, const Batch& batch, View q_TC,
                             View kv_SC) const;
  /// Normalised queries and keys in buffers of their own.
  struct Normalised {
    device::Tensor q_TC, k_SC;
  };
  Normalised place_normalised(Context& context, AttentionOperands& operands) const;
  void attend_cached(Context& context, const KvCacheBinding& cache, View q_TC, View y_TC) const;
  LayerPlace place_;
  AttentionSpec spec_;
  ColumnLinear q_, kv_;
  QkNorms norms_;
  AttentionCore core_;
  RowLinear output_;
};

}  // namespace megalith::layers
