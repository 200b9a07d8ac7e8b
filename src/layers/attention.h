// SPDX-License-Identifier: Apache-2.0
// Self-attention: fused query-key-value projection (column parallel), norms and positions of
// queries and keys where the model has them, attention over heads, output projection (row
// parallel). The fused rows go group by group, one group per key/value head: [query heads of group
// g, key g, value g] (Megatron-LM's layout), so that a tensor rank's rows are contiguous and the
// contraction of the input gradient has one order. Where there are more tensor shards than
// key/value heads, the shards of a group have a part of its key and value rows each, and its ranks
// gather what these make (docs/design/0007-grouped-keys.md).
#pragma once

#include "layers/attention_core.h"
#include "layers/linear.h"
#include "layers/qk_norms.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

struct AttentionSaved {
  device::Tensor qkv_TC;  // [T, (N / t + 2 k) D], k = max(1, K / t); before norms of q and k
  AttentionCoreSaved core;
  QkNormsSaved norms;
  InputCodes input;  // of x, where it is not kept
};

/// Where a layer is: its number in the whole model and among the layers of this rank that share a
/// key/value cache, and what the names of its weights begin with (ModelSpec::layer_name).
struct LayerPlace {
  int64_t in_model = 0;
  int64_t in_cache = 0;
  std::string name = "layers.0";
};

/// What an attention layer is built from.
struct AttentionConfig {
  AttentionSpec spec;
  NormSpec norm;  // of queries and keys, if they have one
  int64_t hidden = 0;
  int64_t context = 0;  // of the model: what scaled positions reach
  double init_std = 0.02;
  double output_init_std = 0.02;
  const parameters::Parameter* relative = nullptr;  // its table, if the spec has such positions
};

class Attention {
 public:
  /// Declares `name`.qkv and `name`.output, and the norms of queries and keys (qk_norms.h).
  Attention(parameters::ParameterSet& set, const std::string& name, const LayerPlace& place,
            const AttentionConfig& config, const Partition& partition);

  /// y_TH = output projection, before dropout and residual. x_TH and y_TH: the rank's own tokens.
  /// `keep_probabilities` false: materialised ones are made again in backward. `kept`: what of x is
  /// to be, of input_kept(). Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
               AttentionSaved* saved, bool keep_probabilities = true,
               InputKept kept = InputKept::numbers) const;
  /// dx_TH overwritten; gradients of weights accumulate. x_TH is what forward was given, or absent
  /// where that was kept as codes. Collective over the tensor ranks.
  void backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                const AttentionSaved& saved, View dx_TH) const;
  InputKept input_kept(const Context& context) const { return qkv_.input_kept(context); }

 private:
  /// With norms in a buffer of their own.
  struct Prepared {
    device::Tensor qk_TC;
    AttentionOperands operands;
  };
  /// The heads in the fused projection's output.
  AttentionOperands fused(const Context& context, const Batch& batch, View qkv_TC) const;
  /// With norms and positions. `again`: from what the norms saved, else filling `saved` unless
  /// null.
  Prepared prepare(Context& context, const Batch& batch, View qkv_TC, const QkNormsSaved* again,
                   QkNormsSaved* saved) const;
  void turn(Context& context, const Batch& batch, const QueriesAndKeys& heads, bool inverse) const;
  void attend_cached(Context& context, const KvCacheBinding& cache,
                     const AttentionOperands& operands, View y_TC) const;
  /// The key and value that ranks share, in the fused projection's output.
  View shared(const LocalHeads& heads, View qkv_TC) const {
    return qkv_TC.columns(heads.queries * heads.size, 2 * heads.size);
  }
  LayerPlace place_;
  AttentionSpec spec_;
  int64_t context_length_;
  ColumnLinear qkv_;
  QkNorms norms_;
  AttentionCore core_;
  RowLinear output_;
};

}  // namespace megalith::layers
