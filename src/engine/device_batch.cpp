// SPDX-License-Identifier: Apache-2.0
#include "engine/device_batch.h"

#include "base/check.h"
#include "base/integer.h"

namespace megalith::engine {

DeviceBatch::DeviceBatch(device::Device& device, const data::HostBatch& host, int64_t max_sequences,
                         double global_weight, const TokenPart& part)
    : cu_seqlens_(host.cu_seqlens), sample_S_(host.sequence_sample) {
  const int64_t tokens = host.num_tokens(), sequences = host.num_sequences(),
                length = host.sequence_length;
  MEGA_CHECK_LE(sequences, max_sequences);
  sample_position_S_.resize(static_cast<size_t>(sequences));
  for (size_t s = 0; s < sample_position_S_.size(); ++s)
    sample_position_S_[s] = cu_seqlens_[s] % length;

  batch_.num_tokens = tokens;
  batch_.num_samples = host.num_samples;
  batch_.ids_T = place(device, host.ids_T.data(), DType::i32, tokens, tokens);
  batch_.position_T = place(device, host.position_T.data(), DType::i32, tokens, tokens);
  batch_.targets_T = place(device, host.targets_T.data(), DType::i32, tokens, tokens);
  batch_.loss_weight_T = place(device, host.loss_weight_T.data(), DType::f32, tokens, tokens);
  place_own_tokens(device, host, part);
  batch_.cu_seqlens = cu_seqlens_;
  batch_.cu_seqlens_device =
      place(device, cu_seqlens_.data(), DType::i32, sequences + 1, max_sequences + 1);
  batch_.sample_S = place(device, sample_S_.data(), DType::i64, sequences, max_sequences);
  batch_.sample_position_S =
      place(device, sample_position_S_.data(), DType::i64, sequences, max_sequences);
  batch_.loss_scale = static_cast<float>(1.0 / global_weight);
}

void DeviceBatch::place_own_tokens(device::Device& device, const data::HostBatch& host,
                                   const TokenPart& part) {
  const int64_t length = host.sequence_length;
  const int64_t each = exact_div(length, static_cast<int64_t>(part.count));
  for (int64_t sample = 0; sample < host.num_samples; ++sample) {
    for (int64_t at = part.index * each; at < (part.index + 1) * each; ++at) {
      own_position_.push_back(host.position_T[static_cast<size_t>(sample * length + at)]);
      own_sample_.push_back(host.first_sample + sample);
      own_sample_position_.push_back(static_cast<int32_t>(at));
    }
  }
  layers::OwnTokens& own = batch_.own;
  own.count = static_cast<int64_t>(own_position_.size());
  own.per_sample = each;
  own.position_T = part.count == 1
                       ? batch_.position_T
                       : place(device, own_position_.data(), DType::i32, own.count, own.count);
  own.sample_T = place(device, own_sample_.data(), DType::i64, own.count, own.count);
  own.sample_position_T =
      place(device, own_sample_position_.data(), DType::i32, own.count, own.count);
}

ConstView DeviceBatch::place(device::Device& device, const void* data, DType dtype, int64_t count,
                             int64_t capacity) {
  tensors_.push_back(device.arena(device::MemoryClass::workspace).tensor(dtype, Shape{capacity}));
  const View view = tensors_.back().view.rows(0, count);
  device.copy_to_device(view, data);
  return view;
}

}  // namespace megalith::engine
