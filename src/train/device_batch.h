// SPDX-License-Identifier: Apache-2.0
// A micro-batch on the device, made from one in host memory.
#pragma once

#include "data/host_batch.h"
#include "layers/batch.h"

namespace megalith::train {

/// Owns what `batch` points to. Stays where it was made (the batch refers to its host copies).
class DeviceBatch {
 public:
  /// Copies everything; `max_sequences` fixes how much memory is taken whatever the batch holds.
  /// Memory: class workspace.
  DeviceBatch(device::Device& device, const data::HostBatch& host, int64_t max_sequences,
              double global_weight);
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  const layers::Batch& batch() const { return batch_; }

 private:
  ConstView place(device::Device& device, const void* data, DType dtype, int64_t count,
                  int64_t capacity);
  std::vector<device::Tensor> tensors_;
  std::vector<int32_t> cu_seqlens_, sample_position_T_;
  std::vector<int64_t> sample_T_, sample_S_, sample_position_S_;
  layers::Batch batch_;
};

}  // namespace megalith::train
