// SPDX-License-Identifier: Apache-2.0
// A micro-batch on the device, made from one in host memory.
#pragma once

#include "data/host_batch.h"
#include "layers/batch.h"

namespace megalith::engine {

/// Owns what `batch` points to. Stays where it was made (the batch refers to its host copies).
class DeviceBatch {
 public:
  /// Which part of each sample's tokens is the rank's own: part `index` of `count` equal ones.
  struct TokenPart {
    int index = 0;
    int count = 1;
  };
  /// Copies everything; `max_sequences` fixes how much memory is taken whatever the batch holds.
  /// Memory: class workspace.
  DeviceBatch(device::Device& device, const data::HostBatch& host, int64_t max_sequences,
              double global_weight, const TokenPart& part);
  DeviceBatch(device::Device& device, const data::HostBatch& host, int64_t max_sequences,
              double global_weight)
      : DeviceBatch(device, host, max_sequences, global_weight, TokenPart{}) {}
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  const layers::Batch& batch() const { return batch_; }

 private:
  ConstView place(device::Device& device, const void* data, DType dtype, int64_t count,
                  int64_t capacity);
  std::vector<device::Tensor> tensors_;
  void place_own_tokens(device::Device& device, const data::HostBatch& host, const TokenPart& part);
  std::vector<int32_t> cu_seqlens_, own_position_, own_sample_position_;
  std::vector<int64_t> own_sample_, sample_S_, sample_position_S_;
  layers::Batch batch_;
};

}  // namespace megalith::engine
