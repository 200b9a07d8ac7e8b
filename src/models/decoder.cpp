// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include <algorithm>
#include <cmath>

namespace megalith::models {
namespace {

kernels::Activation activation_of(MlpKind kind) {
  return kind == MlpKind::gelu_erf ? kernels::Activation::gelu_erf : kernels::Activation::gelu_tanh;
}

layers::BlockConfig block_config(const Architecture& a) {
  // Projections into the residual stream start smaller, so that its variance does not grow with
  // depth (Radford et al. 2019).
  const double output_std = a.init_std / std::sqrt(2.0 * static_cast<double>(a.layers));
  return {{a.hidden, a.heads, a.kv_heads, a.attention == AttentionKind::materialised, a.init_std,
           output_std},
          a.hidden,
          a.ffn,
          activation_of(a.mlp),
          a.norm_eps,
          a.init_std,
          output_std};
}

}  // namespace

Stage Stage::part(const Architecture& a, int index, int count) {
  const int64_t base = a.layers / count, more = a.layers % count;
  const int64_t begin = index * base + std::min<int64_t>(index, more);
  return {begin, begin + base + (index < more ? 1 : 0), index == 0, index == count - 1};
}

Decoder::Decoder(const Architecture& a, parameters::ParameterSet& set, const Stage& stage,
                 const layers::Partition& partition)
    : architecture_(a), stage_(stage), begins_{set.all().size()} {
  if (stage.has_embedding) {
    embedding_.emplace(set, a.vocab, a.padded_vocab(), a.context, a.hidden, a.init_std, a.tied,
                       partition);
    if (a.tied) tied_ = &embedding_->tokens();
  }
  const layers::BlockConfig config = block_config(a);
  for (int64_t i = stage.begin; i < stage.end; ++i) {
    begins_.push_back(set.all().size());
    blocks_.emplace_back(set, i, i - stage.begin, config, partition);
  }
  begins_.push_back(set.all().size());
  if (stage.has_head) declare_head(set, partition);
  begins_.push_back(set.all().size());
}

void Decoder::declare_head(parameters::ParameterSet& set, const layers::Partition& partition) {
  const Architecture& a = architecture_;
  if (a.tied && tied_ == nullptr) {
    // The last stage's copy of the first stage's table: same name, same updates, gradients
    // exchanged.
    using parameters::Init;
    const Shape shape{a.padded_vocab(), a.hidden};
    parameters::Declaration declaration{"embedding.weight", shape, partition.cut(shape, 0),
                                        Init{Init::Kind::normal, a.init_std, a.vocab},
                                        partition.tensor_shards};
    declaration.num_gradients = 2;
    tied_ = &set.declare(declaration);
  }
  head_.emplace(set, a.vocab, a.padded_vocab(), a.hidden, a.norm_eps, a.init_std,
                a.tied ? tied_ : nullptr, partition);
}

View Decoder::input(layers::Context& context, const layers::Batch& batch,
                    DecoderSaved& saved) const {
  saved.x_TH.resize(blocks_.size() + 1);
  saved.blocks.resize(blocks_.size());
  saved.x_TH[0] = context.saved(context.activation, Shape{batch.own.count, architecture_.hidden});
  return saved.x_TH[0];
}

void Decoder::forward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                      const layers::RecomputePolicy& recompute) const {
  if (embedding_) {
    const device::NameScope scope(context.device(), "embedding");
    const View x = input(context, batch, saved);
    embedding_->forward(context, batch, x);
    saved.paper_mask = context.paper_mask(x.shape());
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    saved.x_TH[i + 1] = context.saved(context.activation, saved.x_TH[i].view.shape());
    blocks_[i].forward(context, batch, saved.x_TH[i], saved.x_TH[i + 1], &saved.blocks[i],
                       recompute.of(static_cast<int64_t>(i)));
  }
}

void Decoder::loss(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                   float z_loss, View loss_T, View dx_TH) const {
  head_->forward_backward(context, batch, saved.x_TH.back(), z_loss, loss_T, dx_TH);
  if (!blocks_.empty()) saved.x_TH.back() = {};
}

void Decoder::backward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                       const layers::RecomputePolicy& recompute, View dx_TH,
                       Completed completed) const {
  for (size_t i = blocks_.size(); i-- > 0;) {
    saved.x_TH[i + 1] = {};
    blocks_[i].backward(context, batch, dx_TH, saved.x_TH[i], saved.blocks[i],
                        recompute.of(static_cast<int64_t>(i)), dx_TH);
    saved.blocks[i] = {};
    completed({begins_[i + 1], begins_[i + 2]});
  }
  saved.x_TH[0] = {};
  saved.paper_mask = {};
  if (embedding_) {
    const device::NameScope scope(context.device(), "embedding");
    embedding_->backward(context, batch, dx_TH);
  }
}

void Decoder::hidden(layers::Context& context, const layers::Batch& batch, View x_TH) const {
  const device::Tensor other = context.workspace(context.activation, x_TH.shape());
  // Blocks go back and forth between the two; begin so that the last one writes x_TH.
  View from = blocks_.size() % 2 == 0 ? x_TH : other.view;
  View to = blocks_.size() % 2 == 0 ? other.view : x_TH;
  if (embedding_) {
    const device::NameScope scope(context.device(), "embedding");
    embedding_->forward(context, batch, from);
  } else if (from.data() != x_TH.data()) {
    context.device().copy(from, x_TH);
  }
  for (const layers::Block& block : blocks_) {
    block.forward(context, batch, from, to, nullptr, layers::Recompute::none);
    std::swap(from, to);
  }
}

}  // namespace megalith::models
