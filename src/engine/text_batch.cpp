// SPDX-License-Identifier: Apache-2.0
#include "engine/text_batch.h"

#include <numeric>

namespace megalith::engine {

TextBatch::TextBatch(device::Device& device, std::span<const int32_t> ids,
                     std::span<const int32_t> targets, int64_t past, int64_t reach)
    : device_(device),
      cu_seqlens_{0, static_cast<int32_t>(ids.size())},
      past_{static_cast<int32_t>(past)},
      reach_{static_cast<int32_t>(reach)} {
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(past));
  batch_.num_tokens = std::ssize(ids);
  batch_.ids_T = place({ids.begin(), ids.end()});
  if (!targets.empty()) batch_.targets_T = place({targets.begin(), targets.end()});
  batch_.position_T = place(std::move(positions));
  batch_.own.count = batch_.num_tokens;
  batch_.own.position_T = batch_.position_T;
  batch_.cu_seqlens = cu_seqlens_;
  batch_.cu_seqlens_device = place(cu_seqlens_);
  batch_.reach = reach_;
}

TextBatch::~TextBatch() { device_.wait(last_); }

kernels::CachedSequences TextBatch::cached(ConstView block_table) {
  return {cu_seqlens_, past_, batch_.cu_seqlens_device, place(past_), block_table};
}

ConstView TextBatch::place(std::vector<int32_t> values) {
  host_.push_back(std::move(values));
  const std::vector<int32_t>& host = host_.back();
  tensors_.push_back(device_.arena(device::MemoryClass::workspace)
                         .tensor(DType::i32, Shape{static_cast<int64_t>(host.size())}));
  last_ = device_.copy_to_device(tensors_.back(), host.data());
  return tensors_.back();
}

}  // namespace megalith::engine
