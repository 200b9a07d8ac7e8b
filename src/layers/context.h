// SPDX-License-Identifier: Apache-2.0
// What a layer is given first: where it runs, which ranks share its weights, how sums are cut, and
// what names its random numbers. Passed down, never stored.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "kernels/elementwise/dropout.h"
#include "kernels/exec.h"
#include "kernels/reduction/token_shards.h"
#include "layers/batch.h"
#include "math/random.h"
#include "parameters/parameter.h"
#include "precision/fp8.h"

namespace megalith::layers {

/// Where in a model a random draw is made; part of its key, so the numbers are fixed for good.
enum class DropoutSite : uint64_t {
  embedding = 1,
  probabilities = 2,
  attention = 3,
  mlp = 4,
  cross_probabilities = 5,
  cross = 6,
  decoder_embedding = 7  // of an encoder-decoder, whose encoder has the first
};

struct Context {
  kernels::Exec& exec;
  comm::Communicator& tensor;       // ranks that hold shards of the same layers
  int tensor_shards = 1;            // canonical split; a multiple of tensor.size()
  DType activation = DType::f32;    // storage of activations and their gradients
  DType accumulation = DType::f32;  // of partial sums that travel: f32 (f64 when all is)
  uint64_t step_key = 0;            // of (seed, step)
  double dropout = 0;               // 0 in evaluation
  bool sequence = false;  // between products each tensor rank has its part of the tokens alone
  /// Products that run in 8 bits; null: none.
  precision::Fp8* fp8 = nullptr;
  /// Of the rows of batches that do not say which each has; null: none.
  const Adapter* adapter = nullptr;
  /// Shown every activation, and every gradient of one, as soon as it is computed, with its name
  /// inside the device's name scope; null outside of a replay that looks for what is not finite.
  const std::function<void(std::string_view name, ConstView value)>* inspector = nullptr;

  void inspect(std::string_view name, ConstView value) const {
    if (inspector != nullptr) (*inspector)(name, value);
  }

  device::Device& device() const { return exec.device; }
  device::Tensor workspace(DType dtype, const Shape& shape) const {
    return exec.workspace.tensor(dtype, shape);
  }
  device::Tensor saved(DType dtype, const Shape& shape) const {
    return exec.device.arena(device::MemoryClass::activations).tensor(dtype, shape);
  }
  precision::InputKept input_kept(const parameters::Parameter& weight) const {
    const bool may = fp8 != nullptr && !sequence && weight.trainable();
    return may ? fp8->input_kept(weight.name()) : precision::InputKept::numbers;
  }
  /// Whether backward takes scratch to make an input again even where codes are kept (Fp8Options).
  bool may_fall_back() const { return fp8 != nullptr && fp8->options().may_fall_back; }
  /// Canonical shards on this rank.
  int local_shards() const { return exact_div(tensor_shards, tensor.size()); }

  uint64_t dropout_key(int64_t layer, DropoutSite site) const {
    return random_key(random_key(step_key, static_cast<uint64_t>(layer)),
                      static_cast<uint64_t>(site));
  }
  kernels::Dropout row_dropout(const Batch& batch, int64_t layer, DropoutSite site) const {
    return {static_cast<float>(dropout), dropout_key(layer, site), batch.own.sample_T,
            batch.own.sample_position_T, 0};
  }
};

/// How sums over this rank's tokens are cut (kernels/reduction/token_shards.h): each sample's
/// tokens into as many equal runs as there are partial rows on this rank.
inline kernels::TokenShards token_shards(const Batch& batch, int partials) {
  if (partials == 1) return {};
  return {exact_div<int64_t>(batch.own.per_sample, partials), partials, 0};
}

}  // namespace megalith::layers
