// SPDX-License-Identifier: Apache-2.0
// A micro-batch on the device, made from one in host memory.
#pragma once

#include "data/host_batch.h"
#include "device/staged_copies.h"
#include "heads/head.h"
#include "layers/batch.h"

namespace megalith::engine {

/// Owns what `batch` points to. Stays where it was made (the batch refers to its lengths).
class DeviceBatch {
 public:
  /// Which part of each sample's tokens is the rank's own: part `index` of `count` equal ones.
  struct TokenPart {
    int index = 0;
    int count = 1;
  };
  /// What fixes how much memory is taken, whatever the batch holds.
  struct Sizes {
    int64_t max_sequences = 0;
    layers::LossShape losses = {};
    /// Of each sample, that may weigh anything; 0: all. For losses of tokens.
    int64_t predicted_per_sample = 0;
    bool token_types = false;  // the model has a table of them; without any in the batch all are 0
    double pairs = 1;          // of the step: the global weight of losses of sentence pairs
  };
  /// Copies everything (nothing of `host` is read later). Memory: class workspace.
  DeviceBatch(device::Device& device, const data::HostBatch& host, const Sizes& sizes,
              double global_weight, const TokenPart& part);
  /// Of losses of tokens, all of them the rank's own.
  DeviceBatch(device::Device& device, const data::HostBatch& host, int64_t max_sequences,
              double global_weight)
      : DeviceBatch(device, host, Sizes{max_sequences, {}, 0, false}, global_weight, TokenPart{}) {}
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  const layers::Batch& batch() const { return batch_; }

 private:
  void place_tokens(const data::HostTokens& host, const Sizes& sizes, const TokenPart& part,
                    std::vector<int32_t>& cu_seqlens, layers::Batch& batch);
  void place_losses(const data::HostBatch& host, const Sizes& sizes);
  void place_compared(const data::HostBatch& host, const layers::LossShape& losses, int64_t units);
  void place_predicted(const data::HostBatch& host, int64_t per_sample);
  void place_pairs(const data::HostBatch& host, double global_weight);
  void place_types(const data::HostTokens& host, const TokenPart& part, layers::Batch& batch);
  void place_own_tokens(const data::HostTokens& host, const TokenPart& part, layers::Batch& batch);
  device::StagedCopies arrays_;
  std::vector<int32_t> cu_seqlens_, encoder_cu_seqlens_, predicted_runs_;
  layers::Batch batch_;
  layers::Batch encoder_;  // what an encoder reads, which batch_ points to
};

}  // namespace megalith::engine
