// SPDX-License-Identifier: Apache-2.0
// One rank's work on the micro-batches of one data shard, as the pipeline executor asks for it.
// What a micro-batch keeps in a model chunk between its forward and its backward lives in
// the slot of the two.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/host_batch.h"
#include "engine/device_batch.h"
#include "engine/losses.h"
#include "models/decoder.h"
#include "parallel/executor.h"

namespace megalith::engine {

class PipelineStage final : public parallel::StageWork {
 public:
  struct Work {
    std::span<const data::HostBatch> micro_batches;
    double global_weight = 1;
    double pairs = 1;  // of the step, of all ranks
    LossValues losses;
    DeviceBatch::TokenPart token_part;
    layers::RecomputePolicy recompute;  // of the stage's layers, through all chunks
    float z_loss = 0;
    View loss_U;  // f32 or f64, values of all micro-batches; filled by the last stage
    View finite;  // i32 [1]: becomes 0 there if a loss that counts is not finite; may be absent
    /// Hears which parameters' gradients are complete, in the backward of the last micro-batch.
    /// Empty: nobody does.
    std::function<void(const parameters::ParameterRun&)> completed;
  };
  /// `chunks`: this stage's part of the model, by chunk.
  PipelineStage(std::span<const std::unique_ptr<models::Decoder>> chunks, layers::Context& context,
                const Work& work);

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
    std::shared_ptr<DeviceBatch> batch;  // one for all chunks of a micro-batch
    models::DecoderSaved saved;
    device::Tensor gradient_TH;  // of the output coming in, of the input going out
  };
  Slot& slot(int micro_batch, int chunk);
  Slot& open(int micro_batch, int chunk);
  View gradient(Slot& slot);
  View loss_rows(int micro_batch) const;
  layers::RecomputePolicy recompute_of(int chunk) const;
  const models::Decoder& model_chunk(int chunk) const {
    return *chunks_[static_cast<size_t>(chunk)];
  }
  std::span<const std::unique_ptr<models::Decoder>> chunks_;
  layers::Context& context_;
  Work work_;
  std::vector<Slot> slots_;  // [chunks x micro-batches]
  std::vector<std::weak_ptr<DeviceBatch>> batches_;
};

}  // namespace megalith::engine
