// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include <algorithm>
#include <cmath>

#include "layers/relative_bias.h"

namespace megalith::models {
namespace {

/// Projections into the residual stream start smaller, so that its variance does not grow with
/// depth (Radford et al. 2019).
layers::BlockConfig block_config(const ModelSpec& model, int64_t layer,
                                 const parameters::Parameter* relative) {
  return {model.layer(layer),
          model.hidden,
          model.context,
          model.init_std,
          model.init_std / std::sqrt(2.0 * static_cast<double>(model.num_layers())),
          relative};
}

/// The table of relative positions as each layer of the stage is given it; null where there is
/// none. All layers of the model share it.
std::vector<const parameters::Parameter*> declare_relative(const ModelSpec& model,
                                                           parameters::ParameterSet& set,
                                                           const Stage& stage,
                                                           const layers::Partition& partition) {
  std::vector<const parameters::Parameter*> uses(static_cast<size_t>(stage.end - stage.begin));
  for (int64_t i = stage.begin; i < stage.end; ++i) {
    if (!model.layer(i).attention.relative) continue;
    const parameters::Use use{static_cast<int>(i), static_cast<int>(model.num_layers())};
    if (use.count > 1) set.begin_use(use);
    uses[static_cast<size_t>(i - stage.begin)] = &layers::declare_relative_bias(
        set, "relative_bias.weight", model.layer(i).attention, model.init_std, partition);
    if (use.count > 1) set.end_use();
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
    if (use.count > 1) set.begin_use(use);
    blocks_.emplace_back(set, layers::LayerPlace{i, i - stage.begin, spec.group(i)},
                         block_config(spec, i, relative[static_cast<size_t>(i - stage.begin)]),
                         partition);
    if (use.count > 1) set.end_use();
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
  saved.x_TH.resize(blocks_.size() + 1);
  saved.blocks.resize(blocks_.size());
  saved.x_TH[0] = context.saved(context.activation, Shape{batch.own.count, spec_.hidden});
  return saved.x_TH[0];
}

void Decoder::forward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                      const layers::RecomputePolicy& recompute) const {
  if (embedding_) {
    const device::NameScope scope(context.device(), "embedding");
    const View x = input(context, batch, saved);
    embedding_->forward(context, batch, x, &saved.embedding);
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    saved.x_TH[i + 1] = context.saved(context.activation, saved.x_TH[i].view.shape());
    blocks_[i].forward(context, batch, saved.x_TH[i], saved.x_TH[i + 1], &saved.blocks[i],
                       recompute.of(static_cast<int64_t>(i)));
  }
}

void Decoder::loss(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                   float z_loss, View loss_U, View dx_TH) const {
  head_->forward_backward(context, batch, saved.x_TH.back(), z_loss, loss_U, dx_TH);
  if (!blocks_.empty()) saved.x_TH.back() = {};
}

void Decoder::backward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                       const layers::RecomputePolicy& recompute, View dx_TH,
                       Completed completed) const {
  for (size_t i = blocks_.size(); i-- > 0;) {
    saved.x_TH[i + 1] = {};
    blocks_[i].backward(context, batch, {dx_TH, dx_TH}, saved.x_TH[i], saved.blocks[i],
                        recompute.of(static_cast<int64_t>(i)));
    saved.blocks[i] = {};
    completed(block_parameters(i));
  }
  saved.x_TH[0] = {};
  if (embedding_) {
    const device::NameScope scope(context.device(), "embedding");
    embedding_->backward(context, batch, dx_TH, saved.embedding);
    saved.embedding = {};
  }
}

void Decoder::hidden(layers::Context& context, const layers::Batch& batch, View x_TH) const {
  const device::Tensor other = context.workspace(context.activation, x_TH.shape());
  // Blocks go back and forth between the two; begin so that the last one writes x_TH.
  View from = blocks_.size() % 2 == 0 ? x_TH : other.view;
  View to = blocks_.size() % 2 == 0 ? other.view : x_TH;
  if (embedding_) {
    const device::NameScope scope(context.device(), "embedding");
    embedding_->forward(context, batch, from, nullptr);
  } else if (from.data() != x_TH.data()) {
    context.device().copy(from, x_TH);
  }
  for (const layers::Block& block : blocks_) {
    block.forward(context, batch, from, to, nullptr, layers::Recompute::none);
    std::swap(from, to);
  }
}

}  // namespace megalith::models
