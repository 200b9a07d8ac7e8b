// SPDX-License-Identifier: Apache-2.0
#include "embeddings/embedding.h"

#include "kernels/elementwise/pointwise.h"
#include "kernels/embedding/embedding.h"
#include "layers/adapter.h"
#include "parallel/regions.h"

namespace megalith::layers {
namespace {

DropoutSite site_of(const Batch& batch) {
  return batch.encoder != nullptr ? DropoutSite::decoder_embedding : DropoutSite::embedding;
}

}  // namespace

parameters::Parameter& declare_tokens(parameters::ParameterSet& set, const TokenTable& table,
                                      const Partition& partition, bool is_copy) {
  using parameters::Init;
  const Shape shape{table.padded_vocab, table.width};
  parameters::Declaration declaration{"embedding.weight", shape, partition.cut(shape, 0),
                                      Init{Init::Kind::normal, table.init_std, table.vocab},
                                      partition.tensor_shards};
  declaration.num_gradients = table.tied ? 2 : 1;
  declaration.is_copy = is_copy;
  declaration.may_be_in_blocks = true;
  return set.declare(declaration);
}

Embedding::Embedding(parameters::ParameterSet& set, const EmbeddingConfig& config,
                     const Partition& partition)
    : tokens_(&declare_tokens(set, config.table, partition)),
      vocab_(config.table.vocab),
      position_offset_(config.spec.position_offset),
      scale_(static_cast<float>(config.spec.scale)) {
  const EmbeddingSpec& spec = config.spec;
  const TokenTable& table = config.table;
  const auto declare = [&](const char* name, int64_t rows) {
    using parameters::Init;
    const Shape shape{rows, table.width};
    return &set.declare(
        {name, shape, Shard::whole(shape), Init{Init::Kind::normal, table.init_std}});
  };
  if (spec.position == PositionKind::learned)
    positions_ = declare("position.weight", spec.position_offset + config.context);
  if (spec.position == PositionKind::sinusoidal)
    sinusoidal_.emplace(set, "position", table.width, partition);
  if (spec.token_types > 0) types_ = declare("token_type.weight", spec.token_types);
  if (spec.norm) norm_.emplace(set, "embedding.norm", table.width, *spec.norm, partition);
  if (partition.virtual_tokens != nullptr && partition.virtual_tokens->count > 0) {
    TokenTable scaled = table;
    scaled.init_std *= spec.scale;
    virtual_ = partition.virtual_tokens->make(set, scaled);
  }
  if (spec.width == 0) return;
  projection_.emplace(
      set, "embedding.projection",
      LinearConfig{.inputs = table.width, .outputs = config.hidden, .init_std = table.init_std});
}

/// y: the rank's own tokens, zero where their ids are none of the vocabulary's.
void Embedding::add_virtual(Context& context, const Batch& batch, View y_TE) const {
  if (virtual_ != nullptr) {
    kernels::embedding_add_rows(context.exec, {batch.own.ids_T, virtual_->rows(), vocab_, y_TE});
  }
  for_each_virtual_run(context, batch, [&](int64_t begin, int64_t count, const ConstView& rows_PE) {
    kernels::embedding_add_rows(context.exec, {batch.own.ids_T.rows(begin, count), rows_PE, vocab_,
                                               y_TE.rows(begin, count)});
  });
}

/// Rows of this rank's part of the table of tokens, of all tokens. Those of a frozen table in
/// blocks are rounded to Parameter::widens_to first, which may be narrower than y.
void Embedding::look_up_rows(Context& context, const Batch& batch, View y_TE) const {
  const DType numbers = tokens_->widens_to().value_or(y_TE.dtype());
  const bool is_wider = is_half(numbers) && numbers != y_TE.dtype();
  device::Tensor made;
  if (is_wider) made = context.workspace(numbers, y_TE.shape());
  kernels::embedding_lookup(context.exec,
                            {batch.ids_T, tokens_->compute(), tokens_->declaration().shard.begin,
                             is_wider ? made.view : y_TE});
  if (is_wider) kernels::cast(context.exec, made, y_TE);
}

/// The sum of all tables' rows.
void Embedding::look_up(Context& context, const Batch& batch, View y_TE) const {
  if (context.tensor.size() == 1) {
    look_up_rows(context, batch, y_TE);
  } else {
    // One rank has the row, the others add +0: the sum is exact in any order.
    const device::Tensor partial =
        context.workspace(context.accumulation, Shape{batch.num_tokens, y_TE.size(1)});
    look_up_rows(context, batch, partial);
    if (context.sequence) {
      const device::Tensor own = context.workspace(context.accumulation, y_TE.shape());
      parallel::scatter_rows_forward(context.exec, context.tensor, partial, own,
                                     sequence_shard(batch), tokens_->name());
      kernels::cast(context.exec, own, y_TE);
    } else {
      parallel::reduce_forward(context.exec, context.tensor, partial, tokens_->name());
      kernels::cast(context.exec, partial, y_TE);
    }
  }
  if (scale_ != 1) kernels::scale(context.exec, y_TE, scale_);
  add_virtual(context, batch, y_TE);
  if (types_ != nullptr)
    kernels::embedding_add_positions(context.exec, {batch.own.type_T, types_->compute(), y_TE});
  if (positions_ != nullptr) {
    kernels::embedding_add_positions(
        context.exec,
        {batch.own.position_T, from_position_0(ConstView(positions_->compute())), y_TE});
  }
  if (sinusoidal_) sinusoidal_->forward(context, batch, y_TE);
}

void Embedding::forward(Context& context, const Batch& batch, View y_TH,
                        EmbeddingSaved* saved) const {
  const Shape narrow{y_TH.size(0), tokens_->shape()[1]};
  device::Tensor passing_sum, passing_x;
  const auto place = [&](device::Tensor& passing, device::Tensor* kept) -> View {
    device::Tensor& where = kept != nullptr ? *kept : passing;
    where = kept != nullptr ? context.saved(context.activation, narrow)
                            : context.workspace(context.activation, narrow);
    return where;
  };
  View x = y_TH;
  if (projection_) x = place(passing_x, saved != nullptr ? &saved->x_TE : nullptr);
  View sum = x;
  if (norm_) sum = place(passing_sum, saved != nullptr ? &saved->sum_TE : nullptr);
  look_up(context, batch, sum);
  if (norm_) {
    context.inspect("sum", sum);
    norm_->forward(context, sum, x, saved != nullptr ? &saved->norm : nullptr);
  }
  if (context.dropout > 0)
    kernels::dropout_forward(context.exec, {x, x, context.row_dropout(batch, 0, site_of(batch))});
  if (projection_) projection_->forward(context, x, y_TH);
  context.inspect("output", y_TH);
}

View Embedding::of_all_tokens(Context& context, const Batch& batch, View dy_TE,
                              device::Tensor& memory) const {
  if (!context.sequence) return dy_TE;
  memory = context.workspace(dy_TE.dtype(), Shape{batch.num_tokens, dy_TE.size(1)});
  parallel::scatter_rows_backward(context.exec, context.tensor, dy_TE, memory,
                                  sequence_shard(batch), tokens_->name());
  return memory;
}

void Embedding::table_gradients(Context& context, const Batch& batch, View dy_TE) const {
  device::Tensor gathered;
  const View dy = of_all_tokens(context, batch, dy_TE, gathered);
  if (positions_ != nullptr && positions_->trainable()) {
    kernels::embedding_backward(
        context.exec, {dy, batch.position_T, 0, from_position_0(positions_->gradient_sum())});
  }
  if (types_ != nullptr && types_->trainable())
    kernels::embedding_backward(context.exec, {dy, batch.type_T, 0, types_->gradient_sum()});
  if (virtual_ != nullptr) virtual_->backward(context, batch, vocab_, dy);
  if (!tokens_->trainable()) return;
  if (scale_ != 1) kernels::scale(context.exec, dy, scale_);
  kernels::embedding_backward(
      context.exec, {dy, batch.ids_T, tokens_->declaration().shard.begin, tokens_->gradient_sum()});
}

void Embedding::backward(Context& context, const Batch& batch, View dy_TH,
                         const EmbeddingSaved& saved) const {
  device::Tensor dx_TE;
  View dx = dy_TH;
  if (projection_) {
    dx_TE = context.workspace(context.activation, saved.x_TE.view.shape());
    dx = dx_TE;
    projection_->backward(context, batch, dy_TH, saved.x_TE, dx);
  }
  if (context.dropout > 0) {
    kernels::dropout_backward(context.exec,
                              {dx, dx, context.row_dropout(batch, 0, site_of(batch))});
  }
  if (norm_) norm_->backward(context, batch, {.dy_TH = dx, .dx_TH = dx}, saved.sum_TE, saved.norm);
  if (sinusoidal_) sinusoidal_->backward(context, batch, dx);
  table_gradients(context, batch, dx);
}

void Embedding::backward_both(Context& context, const Batch& batch, View dy_TH,
                              View dencoder_TH) const {
  MEGA_CHECK(positions_ == nullptr && types_ == nullptr && !norm_ && !projection_,
             "an encoder-decoder's embedding is its table of tokens");
  if (!tokens_->trainable() && virtual_ == nullptr) return;
  device::Tensor gathered[2];
  View dy[2];
  const Batch* const streams[] = {batch.encoder, &batch};
  for (size_t i = 0; i < 2; ++i) {
    const View own = i == 0 ? dencoder_TH : dy_TH;
    if (context.dropout > 0) {
      kernels::dropout_backward(
          context.exec, {own, own, context.row_dropout(*streams[i], 0, site_of(*streams[i]))});
    }
    dy[i] = of_all_tokens(context, *streams[i], own, gathered[i]);
  }
  if (virtual_ != nullptr) virtual_->backward(context, *batch.encoder, vocab_, dy[0]);
  if (!tokens_->trainable()) return;
  for (const View& stream : dy)
    if (scale_ != 1) kernels::scale(context.exec, stream, scale_);
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    for (size_t i = 0; i < 2; ++i) {
      const int64_t begin = streams[i]->cu_seqlens[s];
      const int64_t tokens = streams[i]->cu_seqlens[s + 1] - begin;
      if (tokens == 0) continue;
      kernels::embedding_backward(context.exec,
                                  {dy[i].rows(begin, tokens), streams[i]->ids_T.rows(begin, tokens),
                                   tokens_->declaration().shard.begin, tokens_->gradient_sum()});
    }
  }
}

}  // namespace megalith::layers
