// SPDX-License-Identifier: Apache-2.0
// A model ready to read and write text on one device: weights without gradients, the same layers
// and arithmetic as in training, so that trainer, evaluator and generator agree to the bit.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/decoder.h"

namespace megalith::engine {

/// Keys and values of one sequence for every layer. Memory: class activations.
class KvCache {
 public:
  KvCache(device::Device& device, const models::ModelSpec& spec, DType dtype,
          int64_t max_positions);
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  /// Forgets positions from `length` on.
  void truncate(int64_t length) { length_ = length; }

 private:
  friend class InferenceModel;
  std::vector<device::Tensor> storage_;
  std::vector<layers::CachedLayer> layers_;
  std::vector<int32_t> blocks_;
  device::Tensor block_table_;
  int64_t capacity_;
  int64_t length_ = 0;
};

class InferenceModel {
 public:
  struct Options {
    DType compute = DType::f32;  // weights, activations and cache: f32 or bf16
    kernels::Numerics numerics = kernels::Numerics::exact;
    int tensor_shards = 1;  // canonical split of the training run
  };
  /// Declares and places the parameters; fill parameters() before use. `device` must outlive it.
  InferenceModel(const models::ModelSpec& spec, device::Device& device, const Options& options);

  parameters::ParameterSet& parameters() { return set_; }
  const models::ModelSpec& spec() const { return spec_; }
  device::Device& device() { return device_; }

  /// log p(ids[i + 1] | ids[0 .. i]) for every i, in one pass; 1 <= n <= context ids.
  std::vector<double> score(std::span<const int32_t> ids);
  /// Throws the UserError that score() would throw for these ids, without reading them.
  void check_scorable(std::span<const int32_t> ids) const { check_ids(ids, spec_.context); }
  KvCache make_cache(int64_t max_positions);
  /// Appends ids to the cached sequence and gives the logits that follow the last one, over the
  /// vocabulary without padding; zeros on the trace kind, which has no values. Any number of ids;
  /// long runs go in chunks.
  std::vector<float> extend(KvCache& cache, std::span<const int32_t> ids);

 private:
  layers::Context context();
  void check_ids(std::span<const int32_t> ids, int64_t limit) const;
  models::ModelSpec spec_;
  device::Device& device_;
  Options options_;
  kernels::Exec exec_;
  std::unique_ptr<comm::Communicator> alone_;
  parameters::ParameterSet set_;
  std::unique_ptr<models::Decoder> model_;
};

}  // namespace megalith::engine
