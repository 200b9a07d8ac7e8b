// SPDX-License-Identifier: Apache-2.0
// A model that only reads text: weights without gradients, on the ranks that share it.
#pragma once

#include <memory>
#include <optional>

#include "inference/inference_engine.h"

namespace megalith::inference {

class InferenceModel {
 public:
  struct Options {
    DType compute = DType::f32;  // weights and activations: f32, bf16 or f16
    kernels::Numerics numerics = kernels::Numerics::exact;
    int tensor_shards = 1;      // canonical split of the training run
    parallel::Layout layout{};  // tensor and pipeline ranks alone
    /// Of weights that are not stored as `compute`: in blocks (store::ModelSource).
    parameters::StorageFormats formats{};
    /// Of kept keys and values: f32, bf16, f16 or i8; nothing: as `compute`. Other ones round what
    /// later tokens see.
    std::optional<DType> cache{};
  };
  /// UserError, naming what to set, when the layout does not fit the model or its canonical split;
  /// `where` begins it. Local.
  static void check(const models::ModelSpec& spec, const Options& options,
                    const std::string& where);

  /// Declares and places this rank's parameters; fill parameters() before use. `device` and
  /// `world`, of as many ranks as the layout, must outlive it. Collective.
  InferenceModel(const models::ModelSpec& spec, device::Device& device, comm::Communicator& world,
                 const Options& options);
  /// The whole model on one rank.
  InferenceModel(const models::ModelSpec& spec, device::Device& device, const Options& options);

  parameters::ParameterSet& parameters() { return model_.parameters(); }
  const models::ModelSpec& spec() const { return model_.spec(); }
  InferenceEngine& engine() { return engine_; }

 private:
  InferenceModel(const models::ModelSpec& spec, device::Device& device,
                 std::unique_ptr<comm::Communicator> own, const Options& options)
      : InferenceModel(spec, device, *own, options) {
    own_world_ = std::move(own);
  }
  std::unique_ptr<comm::Communicator> own_world_;
  parallel::Mesh mesh_;
  engine::ShardedModel model_;
  InferenceEngine engine_;
};

}  // namespace megalith::inference
