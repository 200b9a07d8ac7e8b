// SPDX-License-Identifier: Apache-2.0
// Tokens on the device, to be read: runs of sequences.
#pragma once

#include <span>
#include <vector>

#include "device/staged_copies.h"
#include "layers/batch.h"

namespace megalith::inference {

/// Runs of several sequences, one behind the other.
struct TextSequences {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;          // of tokens; empty where the model has none
  std::vector<int32_t> targets;        // or none
  std::vector<int32_t> cu_seqlens{0};  // where sequences begin and end
  std::vector<int32_t> past;           // of each: tokens before its run; empty: none
  std::vector<int32_t> reach;          // of each: tokens that it will come to have; empty: these
  /// Of each, which may be null; empty: those of the context.
  std::vector<const layers::Adapter*> adapters;
  int64_t count() const { return static_cast<int64_t>(cu_seqlens.size()) - 1; }
};

/// One whole sequence.
TextSequences one_sequence(std::span<const int32_t> ids);

/// Owns what `batch` points to. Stays where it was made. Memory: class workspace.
class TextBatch {
 public:
  TextBatch(device::Device& device, TextSequences sequences);
  TextBatch(const TextBatch&) = delete;
  TextBatch& operator=(const TextBatch&) = delete;

  const layers::Batch& batch() const { return batch_; }
  const TextSequences& sequences() const { return sequences_; }

 private:
  device::StagedCopies copies_;
  TextSequences sequences_;
  std::vector<layers::AdapterRun> adapters_;
  layers::Batch batch_;
};

}  // namespace megalith::inference
