// SPDX-License-Identifier: Apache-2.0
#include "train/pipeline_stage.h"

namespace megalith::train {

PipelineStage::PipelineStage(models::Decoder& model, layers::Context& context, const Work& work)
    : model_(model), context_(context), work_(work), slots_(work.micro_batches.size()) {}

PipelineStage::Slot& PipelineStage::open(int micro_batch) {
  Slot& slot = slots_[static_cast<size_t>(micro_batch)];
  if (slot.batch == nullptr) {
    slot.batch = std::make_unique<DeviceBatch>(
        context_.device(), work_.micro_batches[static_cast<size_t>(micro_batch)],
        work_.max_sequences, work_.global_weight);
  }
  return slot;
}

View PipelineStage::gradient(Slot& slot) {
  if (slot.gradient_TH.view.absent()) {
    slot.gradient_TH = context_.workspace(
        context_.activation, Shape{slot.batch->batch().num_tokens, model_.architecture().hidden});
  }
  return slot.gradient_TH;
}

void PipelineStage::forward(int micro_batch, int) {
  Slot& slot = open(micro_batch);
  model_.forward(context_, slot.batch->batch(), slot.saved, work_.recompute);
}

void PipelineStage::backward(int micro_batch, int) {
  Slot& slot = open(micro_batch);
  const layers::Batch& batch = slot.batch->batch();
  const View dx = gradient(slot);
  if (model_.stage().has_head) {
    int64_t before = 0;
    for (int m = 0; m < micro_batch; ++m)
      before += work_.micro_batches[static_cast<size_t>(m)].num_tokens();
    model_.loss(context_, batch, slot.saved, work_.z_loss,
                work_.loss_T.rows(before, batch.num_tokens), dx);
  }
  model_.backward(context_, batch, slot.saved, work_.recompute, dx);
  slot.saved = {};
  if (model_.stage().has_embedding) slot = {};
}

ConstView PipelineStage::output(int micro_batch, int) {
  return slots_[static_cast<size_t>(micro_batch)].saved.x_TH.back();
}
View PipelineStage::input(int micro_batch, int) {
  Slot& slot = open(micro_batch);
  return model_.input(context_, slot.batch->batch(), slot.saved);
}
ConstView PipelineStage::input_gradient(int micro_batch, int) {
  return gradient(slots_[static_cast<size_t>(micro_batch)]);
}
View PipelineStage::output_gradient(int micro_batch, int) { return gradient(open(micro_batch)); }

void PipelineStage::output_sent(int micro_batch, int) {
  models::DecoderSaved& saved = slots_[static_cast<size_t>(micro_batch)].saved;
  // A stage without blocks would send its input, which backward does not need either.
  if (!saved.x_TH.empty()) saved.x_TH.back() = {};
}
void PipelineStage::input_gradient_sent(int micro_batch, int) {
  slots_[static_cast<size_t>(micro_batch)] = {};
}

}  // namespace megalith::train
