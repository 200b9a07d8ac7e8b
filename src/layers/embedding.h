// SPDX-License-Identifier: Apache-2.0
// Token embedding (vocabulary cut over the tensor ranks) plus learned positions, then dropout.
#pragma once

#include "layers/linear.h"

namespace megalith::layers {

class Embedding {
 public:
  /// Declares `token_name` [V, H] (V padded; rows from `vocab` on are zero) and "position.weight"
  /// [context, H]. A tied embedding keeps a second gradient buffer for its output side.
  Embedding(parameters::ParameterSet& set, int64_t vocab, int64_t padded_vocab, int64_t context,
            int64_t hidden, double init_std, bool tied, const Partition& partition);

  /// y_TH, the rank's own tokens, overwritten. Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, View y_TH) const;
  /// Accumulates into both tables; dy is used up (dropout is undone in place). Collective when the
  /// own tokens are not all.
  void backward(Context& context, const Batch& batch, View dy_TH) const;

  parameters::Parameter& tokens() const { return *tokens_; }

 private:
  parameters::Parameter* tokens_;
  parameters::Parameter* positions_;
};

}  // namespace megalith::layers
