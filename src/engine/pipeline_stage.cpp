// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline_stage.h"

namespace megalith::engine {

PipelineStage::PipelineStage(std::span<const std::unique_ptr<models::Decoder>> chunks,
                             layers::Context& context, const Work& work)
    : chunks_(chunks),
      context_(context),
      work_(work),
      slots_(chunks.size() * work.micro_batches.size()),
      batches_(work.micro_batches.size()) {}

PipelineStage::Slot& PipelineStage::slot(int micro_batch, int chunk) {
  return slots_[static_cast<size_t>(chunk) * batches_.size() + static_cast<size_t>(micro_batch)];
}

PipelineStage::Slot& PipelineStage::open(int micro_batch, int chunk) {
  Slot& slot = this->slot(micro_batch, chunk);
  if (slot.batch != nullptr) return slot;
  std::weak_ptr<DeviceBatch>& shared = batches_[static_cast<size_t>(micro_batch)];
  slot.batch = shared.lock();
  if (slot.batch == nullptr) {
    const data::HostBatch& host = work_.micro_batches[static_cast<size_t>(micro_batch)];
    slot.batch = std::make_shared<DeviceBatch>(
        context_.device(), host,
        DeviceBatch::Sizes{work_.losses.max_sequences(host), work_.losses.shape(),
                           work_.losses.predicted_per_sample(),
                           chunks_[0]->spec().embedding.token_types > 0, work_.pairs},
        work_.global_weight, work_.token_part);
    shared = slot.batch;
  }
  return slot;
}

View PipelineStage::gradient(Slot& slot) {
  if (slot.gradient_TH.view.absent()) {
    const int64_t rows = models::StreamRows(slot.batch->batch()).all_gradients(context_);
    slot.gradient_TH =
        context_.workspace(context_.activation, Shape{rows, chunks_[0]->spec().hidden});
  }
  return slot.gradient_TH;
}

View PipelineStage::loss_rows(int micro_batch) const {
  const auto index = static_cast<size_t>(micro_batch);
  return work_.loss_U.rows(work_.losses.count(work_.micro_batches.first(index)),
                           work_.losses.count(work_.micro_batches[index]));
}

layers::RecomputePolicy PipelineStage::recompute_of(int chunk) const {
  int64_t before = 0;
  for (int c = 0; c < chunk; ++c)
    before += model_chunk(c).stage().end - model_chunk(c).stage().begin;
  return work_.recompute.from(before);
}

void PipelineStage::forward(int micro_batch, int chunk) {
  Slot& slot = open(micro_batch, chunk);
  model_chunk(chunk).forward(context_, slot.batch->batch(), slot.saved, recompute_of(chunk));
}

void PipelineStage::backward(int micro_batch, int chunk) {
  const models::Decoder& model_chunk = this->model_chunk(chunk);
  Slot& slot = open(micro_batch, chunk);
  const layers::Batch& batch = slot.batch->batch();
  const View dx = gradient(slot);
  // On each chunk backwards run in the order of micro-batches.
  const bool is_last = micro_batch + 1 == static_cast<int>(batches_.size());
  const auto completed = [&](const parameters::ParameterRun& parameters) {
    if (is_last && work_.completed) work_.completed(parameters);
  };
  if (model_chunk.stage().has_head) {
    model_chunk.loss(context_, batch, slot.saved, work_.z_loss, loss_rows(micro_batch), dx);
    if (!work_.finite.absent())
      check_finite(context_.exec, batch, loss_rows(micro_batch), work_.finite);
    completed(model_chunk.head_parameters());
  }
  model_chunk.backward(context_, batch, slot.saved, recompute_of(chunk), dx, completed);
  slot.saved = {};
  if (model_chunk.stage().has_embedding) slot = {};
  completed(model_chunk.embedding_parameters());
}

ConstView PipelineStage::output(int micro_batch, int chunk) {
  return slot(micro_batch, chunk).saved.output_RH;
}
View PipelineStage::input(int micro_batch, int chunk) {
  Slot& slot = open(micro_batch, chunk);
  return model_chunk(chunk).input(context_, slot.batch->batch(), slot.saved);
}
ConstView PipelineStage::input_gradient(int micro_batch, int chunk) {
  Slot& slot = this->slot(micro_batch, chunk);
  return model_chunk(chunk).input_gradient(slot.batch->batch(), gradient(slot));
}
View PipelineStage::output_gradient(int micro_batch, int chunk) {
  Slot& slot = open(micro_batch, chunk);
  return model_chunk(chunk).output_gradient(slot.batch->batch(), gradient(slot));
}

void PipelineStage::output_sent(int micro_batch, int chunk) {
  slot(micro_batch, chunk).saved.output_RH = {};
}
void PipelineStage::input_gradient_sent(int micro_batch, int chunk) {
  slot(micro_batch, chunk) = {};
}

}  // namespace megalith::engine
