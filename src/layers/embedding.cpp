// SPDX-License-Identifier: Apache-2.0
#include "layers/embedding.h"

#include "kernels/elementwise/pointwise.h"
#include "kernels/embedding/embedding.h"
#include "parallel/regions.h"

namespace megalith::layers {

parameters::Parameter& declare_tokens(parameters::ParameterSet& set, const TokenTable& table,
                                      const Partition& partition) {
  using parameters::Init;
  const Shape shape{table.padded_vocab, table.hidden};
  parameters::Declaration declaration{"embedding.weight", shape, partition.cut(shape, 0),
                                      Init{Init::Kind::normal, table.init_std, table.vocab},
                                      partition.tensor_shards};
  declaration.num_gradients = table.tied ? 2 : 1;
  return set.declare(declaration);
}

Embedding::Embedding(parameters::ParameterSet& set, const TokenTable& table,
                     const EmbeddingSpec& spec, int64_t context, const Partition& partition)
    : tokens_(&declare_tokens(set, table, partition)), scale_(static_cast<float>(spec.scale)) {
  if (spec.position != PositionKind::learned) return;
  using parameters::Init;
  const Shape positions{context, table.hidden};
  positions_ = &set.declare({"position.weight", positions, Shard::whole(positions),
                             Init{Init::Kind::normal, table.init_std}});
}

void Embedding::forward(Context& context, const Batch& batch, View y_TH) const {
  const int64_t vocab_begin = tokens_->declaration().shard.begin;
  if (context.tensor.size() == 1) {
    kernels::embedding_lookup(context.exec, {batch.ids_T, tokens_->compute(), vocab_begin, y_TH});
  } else {
    // One rank has the row, the others add +0: the sum is exact in any order.
    const device::Tensor partial =
        context.workspace(context.accumulation, Shape{batch.num_tokens, y_TH.size(1)});
    kernels::embedding_lookup(context.exec,
                              {batch.ids_T, tokens_->compute(), vocab_begin, partial});
    if (context.sequence) {
      const device::Tensor own = context.workspace(context.accumulation, y_TH.shape());
      parallel::scatter_rows_forward(context.exec, context.tensor, partial, own,
                                     sequence_shard(batch), tokens_->name());
      kernels::cast(context.exec, own, y_TH);
    } else {
      parallel::reduce_forward(context.exec, context.tensor, partial, tokens_->name());
      kernels::cast(context.exec, partial, y_TH);
    }
  }
  if (scale_ != 1) kernels::scale(context.exec, y_TH, scale_);
  if (positions_ != nullptr) {
    kernels::embedding_add_positions(context.exec,
                                     {batch.own.position_T, positions_->compute(), y_TH});
  }
  if (context.dropout > 0) {
    kernels::dropout_forward(context.exec,
                             {y_TH, y_TH, context.row_dropout(batch, 0, DropoutSite::embedding)});
  }
  context.inspect("output", y_TH);
}

void Embedding::backward(Context& context, const Batch& batch, View dy_TH) const {
  if (context.dropout > 0) {
    kernels::dropout_backward(
        context.exec, {dy_TH, dy_TH, context.row_dropout(batch, 0, DropoutSite::embedding)});
  }
  device::Tensor gathered;
  if (context.sequence) {
    gathered = context.workspace(dy_TH.dtype(), Shape{batch.num_tokens, dy_TH.size(1)});
    parallel::scatter_rows_backward(context.exec, context.tensor, dy_TH, gathered,
                                    sequence_shard(batch), tokens_->name());
  }
  const ConstView dy = context.sequence ? gathered.view : dy_TH;
  if (positions_ != nullptr && positions_->trainable()) {
    kernels::embedding_backward(context.exec,
                                {dy, batch.position_T, 0, positions_->gradient_sum()});
  }
  if (!tokens_->trainable()) return;
  if (scale_ != 1) kernels::scale(context.exec, context.sequence ? gathered.view : dy_TH, scale_);
  kernels::embedding_backward(
      context.exec, {dy, batch.ids_T, tokens_->declaration().shard.begin, tokens_->gradient_sum()});
}

}  // namespace megalith::layers
