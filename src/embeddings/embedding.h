// SPDX-License-Identifier: Apache-2.0
// Token embedding (vocabulary cut over the tensor ranks), times a scale, or a virtual token
// (layers/virtual_tokens.h), plus positions, learned or sinusoidal, and token types where the model
// has them, its norm, dropout, and the product that takes rows of narrower tables to the hidden
// width.
#pragma once

#include <optional>

#include "embeddings/sinusoidal.h"
#include "layers/norm.h"
#include "layers/token_table.h"
#include "layers/virtual_tokens.h"
#include "layers/whole_linear.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// Declares "embedding.weight" [padded vocabulary, E], cut by rows. `is_copy`: of a table that an
/// earlier pipeline stage has.
parameters::Parameter& declare_tokens(parameters::ParameterSet& set, const TokenTable& table,
                                      const Partition& partition, bool is_copy = false);

/// Sizes of the model that an embedding is part of.
struct EmbeddingConfig {
  EmbeddingSpec spec;
  TokenTable table;
  int64_t hidden = 0;
  int64_t context = 0;
};

/// What backward needs; of an embedding without a norm and a product nothing.
struct EmbeddingSaved {
  device::Tensor sum_TE;  // the norm's input
  NormSaved norm;
  device::Tensor x_TE;  // the product's input
};

class Embedding {
 public:
  /// Declares the token table and, where the model has them, "position.weight" [offset + context,
  /// E] or "position.scale" [1], "token_type.weight" [types, E], "embedding.norm" and
  /// "embedding.projection".
  Embedding(parameters::ParameterSet& set, const EmbeddingConfig& config,
            const Partition& partition);

  /// y_TH, the rank's own tokens, overwritten. Fills `saved` unless null. Collective over the
  /// tensor ranks.
  void forward(Context& context, const Batch& batch, View y_TH, EmbeddingSaved* saved) const;
  /// Accumulates into all tables and weights; dy is used up. Collective when the own tokens are not
  /// all.
  void backward(Context& context, const Batch& batch, View dy_TH,
                const EmbeddingSaved& saved) const;
  /// Of an encoder-decoder, whose embedding is its table of tokens and that of the virtual tokens
  /// which its encoder reads: both streams of a batch. The tables' gradients accumulate; dy_TH and
  /// dencoder_TH, of the rank's own tokens and the activations' type, are overwritten. Sums go
  /// sequence by sequence, the encoder's tokens first, so that they depend neither on micro-batches
  /// nor on what else a sample holds. With sequence parallelism collective over the tensor ranks.
  void backward_both(Context& context, const Batch& batch, View dy_TH, View dencoder_TH) const;

  parameters::Parameter& tokens() const { return *tokens_; }

 private:
  template <class AnyView>
  AnyView from_position_0(const AnyView& table) const {
    return table.rows(position_offset_, table.size(0) - position_offset_);
  }
  void look_up_rows(Context& context, const Batch& batch, View y_TE) const;
  void add_virtual(Context& context, const Batch& batch, View y_TE) const;
  void look_up(Context& context, const Batch& batch, View y_TE) const;
  void table_gradients(Context& context, const Batch& batch, View dy_TE) const;
  /// Of all of the batch's tokens; `memory` holds them where they come from several ranks.
  View of_all_tokens(Context& context, const Batch& batch, View dy_TE,
                     device::Tensor& memory) const;
  parameters::Parameter* tokens_;
  parameters::Parameter* positions_ = nullptr;
  parameters::Parameter* types_ = nullptr;
  std::shared_ptr<const VirtualRows> virtual_;  // that train; null: none
  int64_t vocab_;
  int64_t position_offset_;
  float scale_;
  std::optional<Sinusoidal> sinusoidal_;
  std::optional<Norm> norm_;
  std::optional<WholeLinear> projection_;
};

}  // namespace megalith::layers
