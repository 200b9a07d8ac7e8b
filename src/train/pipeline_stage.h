// SPDX-License-Identifier: Apache-2.0
// One rank's work on the micro-batches of one data shard, as the pipeline executor asks for it.
// What a micro-batch keeps between its forward and its backward lives in its slot.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/host_batch.h"
#include "models/decoder.h"
#include "parallel/executor.h"
#include "train/device_batch.h"

namespace megalith::train {

class PipelineStage final : public parallel::StageWork {
 public:
  struct Work {
    std::span<const data::HostBatch> micro_batches;
    double global_weight = 1;
    int64_t max_sequences = 0;  // of one micro-batch
    layers::Recompute recompute = layers::Recompute::none;
    float z_loss = 0;
    View loss_T;  // f32, tokens of all micro-batches; filled by the last stage
  };
  PipelineStage(models::Decoder& model, layers::Context& context, const Work& work);

  void forward(int micro_batch, int chunk) override;
  void backward(int micro_batch, int chunk) override;
  ConstView output(int micro_batch, int chunk) override;
  View input(int micro_batch, int chunk) override;
  ConstView input_gradient(int micro_batch, int chunk) override;
  View output_gradient(int micro_batch, int chunk) override;
  void output_sent(int micro_batch, int chunk) override;
  void input_gradient_sent(int micro_batch, int chunk) override;

 private:
  struct Slot {
    std::unique_ptr<DeviceBatch> batch;
    models::DecoderSaved saved;
    device::Tensor gradient_TH;  // of the output coming in, of the input going out
  };
  Slot& open(int micro_batch);
  View gradient(Slot& slot);
  models::Decoder& model_;
  layers::Context& context_;
  Work work_;
  std::vector<Slot> slots_;
};

}  // namespace megalith::train
