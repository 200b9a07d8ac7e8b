// SPDX-License-Identifier: Apache-2.0
// The norms of queries and keys before positions, of the kind that a layer's description names:
// none, each head by itself, or all heads together.
#pragma once

#include <optional>
#include <string>

#include "layers/head_norm.h"
#include "layers/whole_norm.h"

namespace megalith::layers {

struct QkNormsSaved {
  HeadNormSaved q, k;
  WholeNormSaved whole;
};

class QkNorms {
 public:
  /// Declares `name`.q_norm and `name`.k_norm, unless there are none: [D], or as wide as all heads.
  QkNorms(parameters::ParameterSet& set, const std::string& name, const AttentionSpec& spec,
          const NormSpec& norm, const Partition& partition);

  explicit operator bool() const { return q_head_.has_value() || whole_.has_value(); }
  /// y overwritten; may be x. Queries or keys may be absent. Fills `saved` unless null. Collective
  /// over the tensor ranks, like the others.
  void forward(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
               QkNormsSaved* saved) const;
  /// The same bits from what forward saved.
  void recompute(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
                 const QkNormsSaved& saved) const;
  /// dy becomes the gradient of x in place; the weights' gradients accumulate, a shared head's on
  /// one rank.
  void backward(Context& context, const QueriesAndKeys& dy, const ConstQueriesAndKeys& x,
                const QkNormsSaved& saved) const;

 private:
  AttentionSpec spec_;
  std::optional<HeadNorm> q_head_, k_head_;
  std::optional<WholeNorm> whole_;
};

}  // namespace megalith::layers
