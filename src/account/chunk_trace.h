// SPDX-License-Identifier: Apache-2.0
// One micro-batch through one model chunk, as a rule on a trace device: what its forward
// keeps, and what each of its passes takes. Times and memories of any pipeline schedule are made of
// these.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "account/plan.h"
#include "engine/device_batch.h"
#include "engine/losses.h"
#include "engine/settings.h"
#include "models/decoder.h"

namespace megalith::account {

/// A model chunk with one micro-batch, driven pass by pass as a pipeline stage would
/// (engine/pipeline_stage.h), on any kind of device: weights and ids are 0. Passes are collective.
class ChunkPasses {
 public:
  /// `recompute` of the settings counts from the chunk's first block.
  ChunkPasses(const engine::Settings& settings, device::Device& device, comm::Communicator& world,
              const models::Stage& stage);

  void place_batch();
  void release_batch() { batch_.reset(); }
  void input();  // where another chunk has the embedding
  void forward();
  /// Places the gradient of the output, which becomes that of the input.
  void place_gradient();
  /// The head's losses too, where the chunk has it. Gives back what forward kept.
  void backward(models::Decoder::Completed completed);
  const View& output() const { return saved_.output_RH.view; }
  /// What of the gradient goes to the stage before.
  View input_gradient() const { return model_chunk_.input_gradient(batch_->batch(), gradient_TH_); }
  const models::Decoder& model_chunk() const { return model_chunk_; }

 private:
  const engine::Settings& settings_;
  parallel::Mesh mesh_;
  kernels::Exec exec_;
  parameters::ParameterSet set_;
  models::Decoder model_chunk_;
  std::unique_ptr<precision::Fp8> fp8_;
  layers::Context context_;
  engine::LossValues losses_;
  data::HostBatch host_;
  device::Tensor loss_U_, finite_;
  std::unique_ptr<engine::DeviceBatch> batch_;
  models::DecoderSaved saved_;
  device::Tensor gradient_TH_;
};

/// A run of blocks with what stands before and behind it (models::Stage), traced.
struct ChunkTrace {
  int64_t kept_bytes = 0;  // class activations, from forward to backward; not the chunk's output
  int64_t peak_bytes = 0;  // the same class at any moment, the output too
  device::Work forward, backward;
  std::vector<device::Record> forward_records, backward_records;
};

/// One micro-batch through a model chunk as this rank of `world` runs them. Collective.
ChunkTrace pass_chunk(const engine::Settings& settings, device::Device& device,
                      comm::Communicator& world, const models::Stage& stage);

/// Traces a chunk as rank 0 of the settings' layout would run them.
ChunkTrace trace_chunk(const engine::Settings& settings, const device::Target& target,
                       const models::Stage& stage);

/// What the second block keeps of a micro-batch, and computes, as if nothing were frozen.
ChunkTrace trace_layer(engine::Settings settings, const device::Target& target);

/// Bytes sent, by kind of collective ("all_gather", "all_to_all", "send", ...); the inputs that
/// sequence parallelism does not keep but gathers again in backward apart, as "all_gather_again".
std::map<std::string, int64_t> wire_bytes_by_kind(const std::vector<device::Record>& records);

}  // namespace megalith::account
