// SPDX-License-Identifier: Apache-2.0
// Attention between the projections: scores, softmax and the sum of values over this rank's heads,
// streaming or with materialised probabilities, and the gradients of keys and values that ranks
// share. Self-attention and cross attention are projections around it.
#pragma once

#include "kernels/attention/attention.h"
#include "layers/local_heads.h"
#include "parameters/parameter.h"

namespace megalith::layers {

struct AttentionCoreSaved {
  device::Tensor y_TC;           // [T, N D / t]: the output projection's input
  device::Tensor lse_NT;         // in Context::accumulation
  device::Tensor probabilities;  // materialised only; absent when recomputed
};

/// Queries, keys and values as attention takes them, and whose tokens they are.
struct AttentionOperands {
  const Batch& queries;
  const Batch* keys = nullptr;  // null: the queries' own; else as many sequences
  kernels::HeadsView q_TND, k_TKD;
  kernels::ConstHeadsView v_TKD;
};

/// Where their gradients go; overwritten.
struct AttentionGradients {
  kernels::HeadsView dq_TND, dk_TKD, dv_TKD;
  View shared_TC;  // [T, 2 D]: dk and dv of a head that ranks share
};

class AttentionCore {
 public:
  /// `layer`: its number in the model, which with `site` names the draws of its dropout.
  /// `relative`: its table of biases if the spec has relative positions (relative_bias.h).
  AttentionCore(const AttentionSpec& spec, int64_t layer, DropoutSite site,
                const parameters::Parameter* relative = nullptr);

  const AttentionSpec& spec() const { return spec_; }
  /// Of this rank's heads.
  kernels::AttentionBias bias() const;
  /// saved->y_TC, or without `saved` a buffer, to be filled by forward.
  device::Tensor place_output(Context& context, int64_t tokens, AttentionCoreSaved* saved) const;
  /// y_TC overwritten. Fills `saved` unless null; `keep_probabilities` false: materialised ones are
  /// made again in backward. Local.
  void forward(Context& context, const AttentionOperands& operands, View y_TC,
               AttentionCoreSaved* saved, bool keep_probabilities) const;
  /// The gradient of biases accumulates. dk and dv of a shared head are the canonical tree over all
  /// ranks that have query heads for it, rounded once, on each of them: collective over those.
  void backward(Context& context, const AttentionOperands& operands,
                const AttentionCoreSaved& saved, ConstView dy_TC,
                const AttentionGradients& gradients) const;

 private:
  kernels::AttentionSequences sequences(const AttentionOperands& operands) const;
  kernels::AttentionDropout dropout(const Context& context, const Batch& batch) const;
  int64_t num_probabilities(const Context& context, const AttentionOperands& operands) const;
  /// The call itself; `lse` and `probabilities` may be absent.
  void attend(Context& context, const AttentionOperands& operands, View y_TC, View lse_NT,
              View probabilities) const;
  device::Tensor probabilities_again(Context& context, const AttentionOperands& operands,
                                     const AttentionCoreSaved& saved) const;
  AttentionSpec spec_;
  int64_t layer_;
  DropoutSite site_;
  const parameters::Parameter* relative_;
};

}  // namespace megalith::layers
