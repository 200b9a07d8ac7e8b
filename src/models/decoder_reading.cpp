// SPDX-License-Identifier: Apache-2.0
// What a decoder does where nothing is kept for a gradient.
#include <utility>

#include "models/decoder.h"

namespace megalith::models {

void Decoder::pass(layers::Context& context, const layers::Batch& batch, size_t begin, size_t end,
                   View x_TH) const {
  const device::Tensor other = context.workspace(context.activation, x_TH.shape());
  View from = x_TH, to = other;
  if ((end - begin) % 2 != 0) {  // they go back and forth between the two; the last one writes x_TH
    context.device().copy(to, from);
    std::swap(from, to);
  }
  for (size_t i = begin; i < end; ++i) {
    blocks_[i].forward(context, batch, from, to, nullptr, layers::Recompute::none);
    std::swap(from, to);
  }
}

void Decoder::pass_encoder(layers::Context& context, const layers::Batch& batch, View x_TH) const {
  pass(context, batch, 0, encoder_blocks(), x_TH);
  if (!encoder_norm_) return;
  const device::NameScope scope(context.device(), "encoder");
  const device::Tensor before = context.workspace(context.activation, x_TH.shape());
  context.device().copy(before, x_TH);
  encoder_norm_->forward(context, before, x_TH, nullptr);
}

void Decoder::hidden(layers::Context& context, const layers::Batch& batch, View x_RH) const {
  const StreamRows rows(batch);
  if (embedding_) embed(context, batch, x_RH, nullptr);
  layers::Memory memory;
  if (batch.encoder != nullptr) {
    pass_encoder(context, *batch.encoder, rows.encoder(x_RH));
    memory = {batch.encoder, rows.encoder(x_RH), {}};
  }
  pass(context, with_memory(batch, memory), encoder_blocks(), blocks_.size(), rows.decoder(x_RH));
}

void Decoder::encode(layers::Context& context, const layers::Batch& batch, View x_TH,
                     const layers::KvCacheBinding& cache) const {
  if (embedding_) embed_encoder(context, batch, x_TH);
  pass_encoder(context, batch, x_TH);
  const layers::Memory memory{&batch, x_TH, {}};
  for (size_t i = encoder_blocks(); i < blocks_.size(); ++i)
    blocks_[i].keep_memory(context, memory, cache);
}

}  // namespace megalith::models
