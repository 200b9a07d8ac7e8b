// SPDX-License-Identifier: Apache-2.0
// Tokens on the device, to be read: a run of one sequence, or several whole sequences.
#pragma once

#include <span>
#include <vector>

#include "device/staged_copies.h"
#include "layers/batch.h"

namespace megalith::engine {

/// Several whole sequences, one behind the other.
struct TextSequences {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;          // of tokens; empty where the model has none
  std::vector<int32_t> targets;        // or none
  std::vector<int32_t> cu_seqlens{0};  // where sequences begin and end
  int64_t count() const { return static_cast<int64_t>(cu_seqlens.size()) - 1; }
};

/// Owns what `batch` points to. Stays where it was made. Memory: class workspace.
class TextBatch {
 public:
  /// Tokens at positions [past, past + n) of a sequence that will come to have `reach` positions;
  /// `targets` as many, or none.
  TextBatch(device::Device& device, std::span<const int32_t> ids, std::span<const int32_t> targets,
            int64_t past, int64_t reach);
  TextBatch(device::Device& device, const TextSequences& sequences);
  TextBatch(const TextBatch&) = delete;
  TextBatch& operator=(const TextBatch&) = delete;

  const layers::Batch& batch() const { return batch_; }
  /// The sequence in a cache whose blocks are those of `block_table`; `past` positions of it are
  /// there.
  kernels::CachedSequences cached(ConstView block_table);

 private:
  device::StagedCopies copies_;
  std::vector<int32_t> cu_seqlens_, past_, reach_;
  layers::Batch batch_;
};

}  // namespace megalith::engine
