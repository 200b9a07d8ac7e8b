// SPDX-License-Identifier: Apache-2.0
// Token embedding (vocabulary cut over the tensor ranks), times a scale, plus learned positions
// where the model has them, then dropout.
#pragma once

#include "layers/linear.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// The table of token rows.
struct TokenTable {
  int64_t vocab = 0;
  int64_t padded_vocab = 0;  // rows from `vocab` on are zero
  int64_t hidden = 0;
  double init_std = 0.02;
  bool tied = false;  // a second gradient buffer for the output side
};
/// Declares "embedding.weight" [padded vocabulary, H], cut by rows.
parameters::Parameter& declare_tokens(parameters::ParameterSet& set, const TokenTable& table,
                                      const Partition& partition);

class Embedding {
 public:
  /// Declares the token table and, with learned positions, "position.weight" [context, H].
  Embedding(parameters::ParameterSet& set, const TokenTable& table, const EmbeddingSpec& spec,
            int64_t context, const Partition& partition);

  /// y_TH, the rank's own tokens, overwritten. Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, View y_TH) const;
  /// Accumulates into both tables; dy is used up (dropout and scale are undone in place).
  /// Collective when the own tokens are not all.
  void backward(Context& context, const Batch& batch, View dy_TH) const;

  parameters::Parameter& tokens() const { return *tokens_; }

 private:
  parameters::Parameter* tokens_;
  parameters::Parameter* positions_ = nullptr;
  float scale_;
};

}  // namespace megalith::layers
