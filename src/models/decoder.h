// SPDX-License-Identifier: Apache-2.0
// A stack of transformer blocks, causal or not, or an encoder and a decoder that reads it, or the
// part of these that one pipeline stage holds: embedding, a run of blocks, head. One model for
// training, scoring and cached generation.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "embeddings/embedding.h"
#include "heads/head.h"
#include "models/block.h"
#include "models/stream_rows.h"
#include "spec/model_spec.h"

namespace megalith::models {

/// A model chunk: blocks [begin, end), with the embedding first and the head last.
struct Stage {
  int64_t begin = 0;
  int64_t end = 0;
  bool has_embedding = true;
  bool has_head = true;
  static Stage whole(const ModelSpec& model) { return {0, model.num_layers(), true, true}; }
  /// Part `index` of `count`, blocks spread evenly, earlier stages taking one more.
  static Stage part(const ModelSpec& model, int index, int count);
};

/// What one micro-batch's forward keeps for its backward.
struct DecoderSaved {
  device::Tensor input_RH;           // of the stage (stream_rows.h)
  device::Tensor output_RH;          // likewise; until it was sent, or the head has read it
  std::vector<device::Tensor> x_TH;  // [blocks]: input of each block, of its own stream
  std::vector<layers::BlockSaved> blocks;
  layers::EmbeddingSaved embedding;
  // Of a stage where an encoder ends:
  device::Tensor encoded_TH;  // the input of its norm
  layers::NormSaved encoder_norm;
  device::Tensor memory_TH;  // its output, where layers of the decoder follow on the same stage
};

class Decoder {
 public:
  Decoder(const ModelSpec& spec, parameters::ParameterSet& set, const Stage& stage,
          const layers::Partition& partition);

  const ModelSpec& spec() const { return spec_; }
  const Stage& stage() const { return stage_; }
  /// The tied embedding of this stage; null when not tied or on a middle stage.
  parameters::Parameter* tied() const { return tied_; }

  /// Places saved.input_RH; the first stage's forward fills it, others receive into it.
  View input(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved) const;
  /// Fills `saved`, with the stage's output. Collective over the tensor ranks. `recompute`: by
  /// block of this chunk.
  void forward(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
               const layers::RecomputePolicy& recompute) const;
  /// The head's part of the last stage: loss_U, and dx_RH overwritten with the gradient of the
  /// stage's output. Releases that output.
  void loss(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved, float z_loss,
            View loss_U, View dx_RH) const;
  /// Told which parameters have all of this micro-batch's gradient now.
  using Completed = FunctionRef<void(const parameters::ParameterRun&)>;
  /// dx_RH (StreamRows::all_gradients): in, the gradient of the stage's output; out, of its input
  /// (on the first stage, used up). Releases `saved` as it goes. `completed` hears of each block,
  /// from the last to the first.
  void backward(
      layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
      const layers::RecomputePolicy& recompute, View dx_RH,
      Completed completed = [](const parameters::ParameterRun&) {}) const;
  /// What of such a buffer passes from this stage to the one before, and comes from the one after.
  View input_gradient(const layers::Batch& batch, View dx_RH) const {
    return StreamRows(batch).sent_gradient(dx_RH, stage_.begin >= spec_.encoder_layers);
  }
  View output_gradient(const layers::Batch& batch, View dx_RH) const {
    return StreamRows(batch).sent_gradient(dx_RH, stage_.end >= spec_.encoder_layers);
  }

  /// What loss() completes, and what the end of backward() does; none on other stages. The table of
  /// a tied model is of its embedding where that is in the same chunk.
  parameters::ParameterRun head_parameters() const {
    return {begins_[begins_.size() - 2], begins_.back()};
  }
  parameters::ParameterRun embedding_parameters() const { return {begins_[0], begins_[1]}; }
  /// What the backward of a block of this chunk completes: nothing, where an earlier layer of the
  /// rank has the same weights.
  parameters::ParameterRun block_parameters(size_t block) const {
    return {begins_[block + 1], begins_[block + 2]};
  }

  /// Inference, nothing kept. x_RH (StreamRows::all rows): in, the stage's input (not read on the
  /// first); out, its output. A batch with `memory` is the decoder's alone: layers of an encoder
  /// pass it by. Collective over the tensor ranks.
  void hidden(layers::Context& context, const layers::Batch& batch, View x_RH) const;
  /// Inference, once for any number of such batches: the encoder's part. `batch`: what it reads.
  /// x_TH: in, the stage's input (not read on the first); out, its output. Keys and values of it go
  /// to `cache`, for cross attention of this chunk's layers (CrossAttention::keep). Collective over
  /// the tensor ranks.
  void encode(layers::Context& context, const layers::Batch& batch, View x_TH,
              const layers::KvCacheBinding& cache) const;
  /// loss_U (f32; f64 where activations are) of each unit of the head's, from hidden().
  void score(layers::Context& context, const layers::Batch& batch, ConstView x_RH,
             View loss_U) const {
    // Of one stack the rows may be some of the batch's alone.
    head_->forward(context, batch,
                   batch.encoder == nullptr ? x_RH : StreamRows(batch).decoder(x_RH), loss_U);
  }
  /// y_UO (f32 or f64) of a head of sequences or classes, from hidden().
  void outputs(layers::Context& context, const layers::Batch& batch, ConstView x_TH,
               View y_UO) const {
    head_->outputs(context, batch, x_TH, y_UO);
  }
  /// y_RH: rows of hidden() behind the final norm, where the model has one.
  void last_hidden(layers::Context& context, ConstView x_RH, View y_RH) const {
    head_->last_hidden(context, x_RH, y_RH);
  }
  /// logits_RV of rows of hidden(); padded vocabulary, f32. Of a language model alone.
  void logits(layers::Context& context, ConstView x_RH, View logits_RV) const {
    head_->logits(context, x_RH, logits_RV);
  }

 private:
  /// Blocks of this chunk that are an encoder's: the first ones.
  size_t encoder_blocks() const {
    return static_cast<size_t>(std::clamp(spec_.encoder_layers, stage_.begin, stage_.end) -
                               stage_.begin);
  }
  /// Of both streams, each inspected under a name of its own. `saved` may be null.
  void embed(layers::Context& context, const layers::Batch& batch, View x_RH,
             layers::EmbeddingSaved* saved) const;
  void embed_encoder(layers::Context& context, const layers::Batch& batch, View x_TH) const;
  /// Through blocks [begin, end) of this chunk, in place.
  void pass(layers::Context& context, const layers::Batch& batch, size_t begin, size_t end,
            View x_TH) const;
  void forward_block(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                     const layers::RecomputePolicy& recompute, size_t block, View y_TH) const;
  void forward_encoder(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                       const layers::RecomputePolicy& recompute) const;
  void backward_block(layers::Context& context, const layers::Batch& batch, DecoderSaved& saved,
                      const layers::RecomputePolicy& recompute, size_t block, View dx_TH,
                      Completed completed) const;
  /// The chunk's part of an encoder, with its norm, in place.
  void pass_encoder(layers::Context& context, const layers::Batch& batch, View x_TH) const;
  /// What cross attention of this stage reads.
  ConstView memory_rows(const layers::Batch& batch, const DecoderSaved& saved) const;
  ModelSpec spec_;
  Stage stage_;
  std::optional<layers::Embedding> embedding_;
  std::vector<layers::Block> blocks_;
  std::optional<layers::Norm> encoder_norm_;  // of the stage with the encoder's last layer
  std::unique_ptr<layers::Head> head_;
  parameters::Parameter* tied_ = nullptr;
  // Numbers of the first parameters of the embedding, of each block and of the head; their end.
  std::vector<size_t> begins_;
};

}  // namespace megalith::models
