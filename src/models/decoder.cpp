// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include <cmath>

#include "kernels/elementwise/pointwise.h"
#include "layers/relative_bias.h"

namespace megalith::models {
namespace {

/// Projections into the residual stream start smaller, so that its variance does not grow with
/// depth (Radford et al. 2019).
layers::BlockConfig block_config(const ModelSpec& model, int64_t layer,
                                 const parameters::Parameter* relative) {
  const int64_t depth = model.stack_end(layer) - model.stack_begin(layer);
  return {model.layer(layer),
          model.hidden,
          model.context,
          model.init_std,
          model.init_std / std::sqrt(2.0 * static_cast<double>(depth)),
          relative};
}

/// The table of relative positions as each layer of the stage is given it; null where there is
/// none. All layers of a stack share it.
std::vector<const parameters::Parameter*> declare_relative(const ModelSpec& model,
                                                           parameters::ParameterSet& set,
                                                           const Stage& stage,
                                                           const layers::Partition& partition) {
  std::vector<const parameters::Parameter*> uses(static_cast<size_t>(stage.end - stage.begin));
  for (int64_t i = stage.begin; i < stage.end; ++i) {
    if (!model.layer(i).attention.relative) continue;
    const int64_t first = model.stack_begin(i), count = model.stack_end(i) - first;
    if (count > 1) set.begin_use({static_cast<int>(i - first), static_cast<int>(count)});
    uses[static_cast<size_t>(i - stage.begin)] = &layers::declare_relative_bias(
        set, model.is_encoder_layer(i) ? "encoder.relative_bias.weight" : "relative_bias.weight",
        model.layer(i).attention, model.init_std, partition);
    if (count > 1) set.end_use();
  }
  return uses;
}

layers::TokenTable token_table(const ModelSpec& model, int tensor_shards) {
  return {model.vocab, model.padded_vocab(tensor_shards), model.table_width(), model.init_std,
          model.head.tied};
}

/// Which of the layers with its weights a layer is.
parameters::Use use_of(const ModelSpec& model, int64_t layer) {
  const int64_t group = model.group(layer), begin = model.group_begin(group);
  return {static_cast<int>(layer - begin), static_cast<int>(model.group_begin(group + 1) - begin)};
}

}  // namespace

Stage Stage::part(const ModelSpec& model, int index, int count) {
  const int64_t base = model.num_layers() / count, more = model.num_layers() % count;
  const int64_t begin = index * base + std::min<int64_t>(index, more);
  return {begin, begin + base + (index < more ? 1 : 0), index == 0, index == count - 1};
}

Decoder::Decoder(const ModelSpec& spec, parameters::ParameterSet& set, const Stage& stage,
                 const layers::Partition& partition)
    : spec_(spec), stage_(stage), begins_{set.all().size()} {
  const layers::TokenTable tokens = token_table(spec, partition.tensor_shards);
  if (stage.has_embedding) {
    embedding_.emplace(
        set, layers::EmbeddingConfig{spec.embedding, tokens, spec.hidden, spec.context}, partition);
    if (spec.head.tied) tied_ = &embedding_->tokens();
  }
  const auto relative = declare_relative(spec, set, stage, partition);
  for (int64_t i = stage.begin; i < stage.end; ++i) {
    begins_.push_back(set.all().size());
    const parameters::Use use = use_of(spec, i);
    const int64_t in_cache =
        i - (spec.is_encoder_layer(i) ? stage.begin : std::max(stage.begin, spec.encoder_layers));
    if (use.count > 1) set.begin_use(use);
    blocks_.emplace_back(set, layers::LayerPlace{i, in_cache, spec.layer_name(i)},
                         block_config(spec, i, relative[static_cast<size_t>(i - stage.begin)]),
                         partition);
    if (use.count > 1) set.end_use();
    if (i + 1 == spec.encoder_layers)
      encoder_norm_.emplace(set, "encoder.final_norm", spec.hidden, spec.final_norm, partition);
  }
  begins_.push_back(set.all().size());
  if (stage.has_head) {
    // Without the first stage's table: a copy of the same name, with the same updates; gradients
    // are exchanged.
    if (spec.head.tied && tied_ == nullptr)
      tied_ = &declare_tokens(set, tokens, partition, /*is_copy=*/true);
    head_ = layers::make_head(
        set, {spec.head, spec.final_norm, spec.hidden, tokens, spec.head.tied ? tied_ : nullptr},
        partition);
  }
  begins_.push_back(set.all().size());
}

View Decoder::input(layers::Context& context, const layers::Batch& batch,
                    DecoderSaved& saved) const {
  saved.x_TH.resize(blocks_.size());
  saved.blocks.resize(blocks_.size());
  saved.input_RH = context.saved(context.activation, Shape{StreamRows(batch).all(), spec_.hidden});
  return saved.input_RH;
}

void Decoder::embed(layers::Context& context, const layers::Batch& batch, View x_RH,
                    layers::EmbeddingSaved* saved) const {
  const StreamRows rows(batch);
  {
    const device::NameScope scope(context.device(), "embedding");
    embedding_->forward(context, batch, rows.decoder(x_RH), saved);
  }
  if (batch.encoder != nullptr) embed_encoder(context, *batch.encoder, rows.encoder(x_RH));
}

void Decoder::embed_encoder(layers::Context& context, const layers::Batch& batch, View x_TH) const {
  const device::NameScope scope(context.device(), "encoder.embedding");
  embedding_->forward(context, batch, x_TH, nullptr);
}

ConstView Decoder::memory_rows(const layers::Batch& batch, const DecoderSaved& saved) const {
  if (batch.encoder == nullptr) return {};
  return encoder_norm_ ? ConstView(saved.memory_TH)
                       : StreamRows(batch).encoder(ConstView(saved.input_RH));
}

void Decoder::forward_block(layers::Context& context, const layers::Batch& batch,
                            DecoderSaved& saved, const layers::RecomputePolicy& recompute,
                            size_t block, View y_TH) const {
  blocks_[block].forward(context, batch, saved.x_TH[block], y_TH, &saved.blocks[block],
                         recompute.of(static_cast<int64_t>(block)));
}

/// The chunk's blocks of an encoder, its norm, and where no block of the decoder follows, the
/// stage's output.
void Decoder::forward_encoder(layers::Context& context, const layers::Batch& batch,
                              DecoderSaved& saved, const layers::RecomputePolicy& recompute) const {
  const StreamRows rows(batch);
  const size_t blocks = encoder_blocks();
  const bool ends = blocks == blocks_.size();
  const auto place = [&](device::Tensor& where) -> View {
    where = context.saved(context.activation, Shape{batch.encoder->own.count, spec_.hidden});
    return where;
  };
  const auto place_output = [&] {
    saved.output_RH = context.saved(context.activation, saved.input_RH.view.shape());
    return rows.encoder(saved.output_RH.view);
  };
  saved.x_TH[0] = {{}, rows.encoder(saved.input_RH.view)};
  for (size_t i = 0; i < blocks; ++i) {
    const View y = i + 1 < blocks  ? place(saved.x_TH[i + 1])
                   : encoder_norm_ ? place(saved.encoded_TH)
                                   : place_output();
    forward_block(context, *batch.encoder, saved, recompute, i, y);
  }
  if (encoder_norm_) {
    const device::NameScope scope(context.device(), "encoder");
    const View memory = ends ? place_output() : place(saved.memory_TH);
    encoder_norm_->forward(context, saved.encoded_TH, memory, &saved.encoder_norm);
    context.inspect("output", memory);
  }
  if (ends)
    context.device().copy(rows.decoder(saved.output_RH.view), rows.decoder(saved.input_RH.view));
}

void Decoder::forward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                      const layers::RecomputePolicy& recompute) const {
  const StreamRows rows(batch);
  if (embedding_) embed(context, batch, input(context, batch, saved), &saved.embedding);
  const size_t first = encoder_blocks();
  if (first > 0) forward_encoder(context, batch, saved, recompute);
  if (blocks_.empty()) saved.output_RH = {{}, saved.input_RH.view};
  if (first == blocks_.size()) return;
  const layers::Memory memory{batch.encoder, memory_rows(batch, saved), {}};
  const layers::Batch reading = with_memory(batch, memory);
  saved.x_TH[first] = {{}, rows.decoder(saved.input_RH.view)};
  for (size_t i = first; i < blocks_.size(); ++i) {
    const bool is_last = i + 1 == blocks_.size();
    device::Tensor& where = is_last ? saved.output_RH : saved.x_TH[i + 1];
    const int64_t count = is_last && !stage_.has_head ? rows.all() : batch.own.count;
    where = context.saved(context.activation, Shape{count, spec_.hidden});
    forward_block(context, reading, saved, recompute, i, rows.decoder(where.view));
  }
  if (batch.encoder != nullptr && !stage_.has_head)
    context.device().copy(rows.encoder(saved.output_RH.view), memory.rows_TH);
}

void Decoder::loss(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                   float z_loss, View loss_U, View dx_RH) const {
  const StreamRows rows(batch);
  head_->forward_backward(context, batch, saved.output_RH, z_loss, loss_U, rows.decoder(dx_RH));
  if (batch.encoder != nullptr) kernels::fill(context.exec, rows.behind_decoder(dx_RH), 0);
  saved.output_RH = {};
}

void Decoder::backward_block(layers::Context& context, const layers::Batch& batch,
                             DecoderSaved& saved, const layers::RecomputePolicy& recompute,
                             size_t block, View dx_TH, Completed completed) const {
  if (block + 1 < blocks_.size()) saved.x_TH[block + 1] = {};
  blocks_[block].backward(context, batch, {dx_TH, dx_TH}, saved.x_TH[block], saved.blocks[block],
                          recompute.of(static_cast<int64_t>(block)));
  saved.blocks[block] = {};
  completed(block_parameters(block));
}

void Decoder::backward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                       const layers::RecomputePolicy& recompute, View dx_RH,
                       Completed completed) const {
  const StreamRows rows(batch);
  const size_t first = encoder_blocks();
  saved.output_RH = {};
  if (first < blocks_.size()) {
    layers::Memory memory{batch.encoder, memory_rows(batch, saved), {}};
    if (batch.encoder != nullptr) memory.gradient_TH = rows.memory_gradient(context, dx_RH);
    const layers::Batch reading = with_memory(batch, memory);
    for (size_t i = blocks_.size(); i-- > first;)
      backward_block(context, reading, saved, recompute, i, rows.decoder(dx_RH), completed);
  }
  if (encoder_norm_) {
    const device::NameScope scope(context.device(), "encoder");
    saved.memory_TH = {};
    const View dx = rows.encoder_gradient(dx_RH);
    const device::Tensor dy = context.workspace(context.activation, dx.shape());
    kernels::cast(context.exec, rows.memory_gradient(context, dx_RH), dy);
    context.inspect("output_gradient", dy);
    encoder_norm_->backward(context, *batch.encoder, {.dy_TH = dy, .dx_TH = dx}, saved.encoded_TH,
                            saved.encoder_norm);
    saved.encoded_TH = {};
    saved.encoder_norm = {};
  }
  for (size_t i = first; i-- > 0;) {
    backward_block(context, *batch.encoder, saved, recompute, i, rows.encoder_gradient(dx_RH),
                   completed);
  }
  if (!saved.x_TH.empty()) saved.x_TH[0] = {};
  saved.input_RH = {};
  if (!embedding_) return;
  const device::NameScope scope(context.device(), "embedding");
  if (batch.encoder != nullptr) {
    embedding_->backward_both(context, batch, rows.decoder(dx_RH), rows.encoder_gradient(dx_RH));
  } else {
    embedding_->backward(context, batch, dx_RH, saved.embedding);
  }
  saved.embedding = {};
}

}  // namespace megalith::models
