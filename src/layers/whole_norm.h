// SPDX-License-Identifier: Apache-2.0
// The norm over all query heads of a token together, and over all its key heads (OLMo 2): each rank
// has the weights of its own heads, and ranks add up the sums of the rows. A sum is the canonical
// tree over the tensor shards' parts on one rank too; where shards share a key head, over the key
// heads. So no layout changes a bit.
#pragma once

#include <array>
#include <string>

#include "base/function_ref.h"
#include "kernels/norm/whole_norm.h"
#include "layers/linear.h"
#include "layers/local_heads.h"

namespace megalith::layers {

/// Totals of every token, of queries and of keys, [T] each in Context::accumulation.
struct WholeNormSaved {
  std::array<device::Tensor, 2> sum_T;  // layer norms only
  std::array<device::Tensor, 2> squares_T;
};

class WholeNorm {
 public:
  /// Declares `name`.q_norm.weight [N D] and `name`.k_norm.weight [K D], cut like the heads; where
  /// ranks share a key head, each has an equal part of its weights.
  WholeNorm(parameters::ParameterSet& set, const std::string& name, const AttentionSpec& spec,
            const NormSpec& norm, const Partition& partition);

  /// y overwritten; may be x. Queries or keys may be absent. Fills `saved` unless null. Collective
  /// over the tensor ranks.
  void forward(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
               WholeNormSaved* saved) const;
  /// y again, without the sums. Collective where ranks share a key head.
  void recompute(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
                 const WholeNormSaved& saved) const;
  /// dy becomes the gradient of x in place; the weights' gradients accumulate. Collective.
  void backward(Context& context, const QueriesAndKeys& dy, const ConstQueriesAndKeys& x,
                const WholeNormSaved& saved) const;

 private:
  /// A vector for the queries, one for the keys.
  using Totals = std::array<View, 2>;
  /// Fills parts_PN of one of them: the canonical shards on this rank.
  using Fill = FunctionRef<void(size_t which, View parts_PN)>;
  void total(Context& context, const Totals& out, Fill fill) const;
  kernels::RowTotals totals_of(size_t which, const WholeNormSaved& saved) const;
  ConstView weight(Context& context, size_t which, device::Tensor& gathered) const;
  void weight_gradients(Context& context, const QueriesAndKeys& dy, const ConstQueriesAndKeys& x,
                        const WholeNormSaved& saved) const;
  bool has_mean() const { return norm_.kind == NormKind::layer; }
  int64_t sharers(const LocalHeads& heads, size_t which) const {
    return which == 0 ? 1 : heads.sharers;
  }

  AttentionSpec spec_;
  NormSpec norm_;
  std::string name_;
  std::array<parameters::Parameter*, 2> weights_;
};

}  // namespace megalith::layers
