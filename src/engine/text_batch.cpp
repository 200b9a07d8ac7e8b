// SPDX-License-Identifier: Apache-2.0
#include "engine/text_batch.h"

#include <numeric>

namespace megalith::engine {

TextBatch::TextBatch(device::Device& device, std::span<const int32_t> ids,
                     std::span<const int32_t> targets, int64_t past, int64_t reach)
    : copies_(device),
      cu_seqlens_{0, static_cast<int32_t>(ids.size())},
      past_{static_cast<int32_t>(past)},
      reach_{static_cast<int32_t>(reach)} {
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(past));
  batch_.num_tokens = std::ssize(ids);
  batch_.ids_T = copies_.place(ids);
  if (!targets.empty()) batch_.targets_T = copies_.place(targets);
  batch_.position_T = copies_.place<int32_t>(positions);
  batch_.own.count = batch_.num_tokens;
  batch_.own.position_T = batch_.position_T;
  batch_.cu_seqlens = cu_seqlens_;
  batch_.cu_seqlens_device = copies_.place<int32_t>(cu_seqlens_);
  batch_.reach = reach_;
}

TextBatch::TextBatch(device::Device& device, const TextSequences& sequences)
    : copies_(device), cu_seqlens_(sequences.cu_seqlens) {
  std::vector<int32_t> positions(sequences.ids.size());
  for (size_t s = 0; s + 1 < cu_seqlens_.size(); ++s) {
    std::iota(positions.begin() + cu_seqlens_[s], positions.begin() + cu_seqlens_[s + 1], 0);
    reach_.push_back(cu_seqlens_[s + 1] - cu_seqlens_[s]);
  }
  batch_.num_tokens = std::ssize(sequences.ids);
  batch_.ids_T = copies_.place<int32_t>(sequences.ids);
  if (!sequences.targets.empty()) batch_.targets_T = copies_.place<int32_t>(sequences.targets);
  if (!sequences.types.empty()) batch_.type_T = copies_.place<int32_t>(sequences.types);
  batch_.position_T = copies_.place<int32_t>(positions);
  batch_.own.count = batch_.num_tokens;
  batch_.own.position_T = batch_.position_T;
  batch_.own.type_T = batch_.type_T;
  batch_.cu_seqlens = cu_seqlens_;
  batch_.cu_seqlens_device = copies_.place<int32_t>(cu_seqlens_);
  batch_.reach = reach_;
}

kernels::CachedSequences TextBatch::cached(ConstView block_table) {
  return {cu_seqlens_, past_, batch_.cu_seqlens_device, copies_.place<int32_t>(past_), block_table};
}

}  // namespace megalith::engine
