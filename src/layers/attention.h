// SPDX-License-Identifier: Apache-2.0
// Self-attention: fused query-key-value projection (column parallel), attention over heads, output
// projection (row parallel). The fused rows go group by group, one group per key/value head:
// [query heads of group g, key g, value g] (Megatron-LM's layout), so that a tensor rank's rows are
// contiguous and the contraction of the input gradient has one order.
#pragma once

#include "layers/linear.h"

namespace megalith::layers {

struct AttentionConfig {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  bool materialised = false;  // store the probabilities instead of recomputing them in backward
  double init_std = 0.02;
  double output_init_std = 0.02;
};

struct AttentionSaved {
  device::Tensor qkv_TC;                     // [T, (N + 2K) D / t]
  device::Tensor y_TC;                       // [T, N D / t]: the output projection's input
  device::Tensor lse_NT;                     // f32
  device::Tensor probabilities;              // materialised only; absent when recomputed
  device::Tensor paper_mask, paper_dropped;  // Context::paper_storage
};

class Attention {
 public:
  Attention(parameters::ParameterSet& set, const std::string& name, const AttentionConfig& config,
            const Partition& partition);

  /// y_TH = output projection, before dropout and residual; `layer` names dropout draws and the
  /// cache's layer. x_TH and y_TH: the rank's own tokens. `keep_probabilities` false: materialised
  /// ones are made again in backward. Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, int64_t layer, ConstView x_TH, View y_TH,
               AttentionSaved* saved, bool keep_probabilities = true) const;
  /// dx_TH overwritten; x_TH is what forward was given.
  void backward(Context& context, const Batch& batch, int64_t layer, ConstView dy_TH,
                ConstView x_TH, const AttentionSaved& saved, View dx_TH) const;

 private:
  struct Heads;
  Heads heads_of(const Context& context) const;
  void keep_probabilities(Context& context, const Batch& batch, AttentionSaved& saved) const;
  device::Tensor probabilities_again(Context& context, const Batch& batch, int64_t layer,
                                     const AttentionSaved& saved) const;
  kernels::AttentionDropout dropout_of(const Context& context, const Batch& batch,
                                       int64_t layer) const;
  AttentionConfig config_;
  ColumnLinear qkv_;
  RowLinear output_;
};

}  // namespace megalith::layers
