// SPDX-License-Identifier: Apache-2.0
#include "inference/text_batch.h"

#include <numeric>

namespace megalith::inference {

TextSequences one_sequence(std::span<const int32_t> ids) {
  TextSequences one;
  one.ids.assign(ids.begin(), ids.end());
  one.cu_seqlens.push_back(static_cast<int32_t>(ids.size()));
  return one;
}

TextBatch::TextBatch(device::Device& device, TextSequences sequences)
    : copies_(device), sequences_(std::move(sequences)) {
  TextSequences& s = sequences_;
  const auto count = static_cast<size_t>(s.count());
  s.past.resize(count);
  std::vector<int32_t> positions(s.ids.size());
  for (size_t i = 0; i < count; ++i) {
    const auto begin = positions.begin() + s.cu_seqlens[i];
    std::iota(begin, positions.begin() + s.cu_seqlens[i + 1], s.past[i]);
    if (s.reach.size() == i) s.reach.push_back(s.cu_seqlens[i + 1] - s.cu_seqlens[i] + s.past[i]);
  }
  batch_.num_tokens = std::ssize(s.ids);
  batch_.ids_T = copies_.place<int32_t>(s.ids);
  if (!s.targets.empty()) batch_.targets_T = copies_.place<int32_t>(s.targets);
  if (!s.types.empty()) batch_.type_T = copies_.place<int32_t>(s.types);
  batch_.position_T = copies_.place<int32_t>(positions);
  batch_.own.count = batch_.num_tokens;
  batch_.own.ids_T = batch_.ids_T;
  batch_.own.position_T = batch_.position_T;
  batch_.own.type_T = batch_.type_T;
  batch_.cu_seqlens = s.cu_seqlens;
  batch_.cu_seqlens_device = copies_.place<int32_t>(s.cu_seqlens);
  batch_.reach = s.reach;
  for (size_t i = 0; i < s.adapters.size(); ++i) {
    const int64_t begin = s.cu_seqlens[i], rows = s.cu_seqlens[i + 1] - begin;
    if (!adapters_.empty() && adapters_.back().adapter == s.adapters[i]) {
      adapters_.back().count += rows;
    } else {
      adapters_.push_back({begin, rows, s.adapters[i]});
    }
  }
  batch_.adapters = adapters_;
}

}  // namespace megalith::inference
