// SPDX-License-Identifier: Apache-2.0
// Self-attention: fused query-key-value projection (column parallel), norms and positions of
// queries and keys where the model has them, attention over heads, output projection (row
// parallel). The fused rows go group by group, one group per key/value head: [query heads of group
// g, key g, value g] (Megatron-LM's layout), so that a tensor rank's rows are contiguous and the
// contraction of the input gradient has one order. Where there are more tensor shards than
// key/value heads, the shards of a group have a part of its key and value rows each, and its ranks
// gather what these make (docs/design/0007-grouped-keys.md).
#pragma once

#include <optional>

#include "kernels/attention/attention.h"
#include "layers/head_norm.h"
#include "layers/linear.h"
#include "layers/spec.h"

namespace megalith::layers {

struct AttentionSaved {
  device::Tensor qkv_TC;  // [T, (N / t + 2 k) D], k = max(1, K / t); before norms of q and k
  device::Tensor y_TC;    // [T, N D / t]: the output projection's input
  device::Tensor lse_NT;  // f32
  HeadNormSaved q_norm, k_norm;
  device::Tensor probabilities;  // materialised only; absent when recomputed
};

/// Where a layer is: its number in the whole model, and among the layers of this rank that share a
/// key/value cache.
struct LayerPlace {
  int64_t in_model = 0;
  int64_t in_cache = 0;
};

/// What an attention layer is built from.
struct AttentionConfig {
  AttentionSpec spec;
  NormSpec norm;  // of queries and keys, if they have one
  int64_t hidden = 0;
  int64_t context = 0;  // of the model: what scaled positions reach
  double init_std = 0.02;
  double output_init_std = 0.02;
};

class Attention {
 public:
  /// Declares `name`.qkv and `name`.output, and `name`.q_norm and `name`.k_norm [D] if there are.
  Attention(parameters::ParameterSet& set, const std::string& name, const LayerPlace& place,
            const AttentionConfig& config, const Partition& partition);

  /// y_TH = output projection, before dropout and residual. x_TH and y_TH: the rank's own tokens.
  /// `keep_probabilities` false: materialised ones are made again in backward. Collective over the
  /// tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
               AttentionSaved* saved, bool keep_probabilities = true) const;
  /// dx_TH overwritten; x_TH is what forward was given.
  void backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                const AttentionSaved& saved, View dx_TH) const;

 private:
  /// Sizes on this rank.
  struct Heads {
    int64_t queries, kv, size, begin;
    float scale;
    int sharers;           // ranks that have the same key/value head
    int64_t kv_partials;   // canonical shards of each key/value head, here
    int64_t own_columns;   // of the fused projection; the others' key and value are gathered
    int64_t first_shared;  // column of the key and value that are shared
  };
  /// Queries, keys and values as attention takes them; with norms in a buffer of their own.
  struct Prepared {
    device::Tensor qk_TC;
    kernels::HeadsView q_TND, k_TKD;
    kernels::ConstHeadsView v_TKD;
  };
  Heads heads_of(const Context& context) const;
  kernels::AttentionSequences sequences_of(const Batch& batch) const;
  kernels::AttentionDropout dropout_of(const Context& context, const Batch& batch) const;
  Prepared prepare(Context& context, const Batch& batch, View qkv_TC, AttentionSaved* saved) const;
  void normalise(Context& context, View qkv_TC, Prepared& prepared, AttentionSaved* saved) const;
  void turn(Context& context, const Batch& batch, kernels::HeadsView q_TND,
            kernels::HeadsView k_TKD, bool inverse) const;
  /// The core: y from prepared heads; `lse` and `probabilities` may be absent.
  void attend(Context& context, const Batch& batch, const Prepared& prepared, View y_TC, View lse,
              View probabilities) const;
  void keep_probabilities(Context& context, const Batch& batch, AttentionSaved& saved) const;
  void gather_shared(Context& context, View qkv_TC) const;
  void core_backward(Context& context, const Batch& batch, const Prepared& prepared,
                     const AttentionSaved& saved, ConstView dcore_TC, View dqkv_TC) const;
  device::Tensor probabilities_again(Context& context, const Batch& batch, const Prepared& prepared,
                                     const AttentionSaved& saved) const;
  LayerPlace place_;
  AttentionSpec spec_;
  int64_t context_length_;
  ColumnLinear qkv_;
  std::optional<HeadNorm> q_norm_, k_norm_;
  RowLinear output_;
};

}  // namespace megalith::layers
