// SPDX-License-Identifier: Apache-2.0
#include "engine/device_batch.h"

#include "base/check.h"
#include "base/integer.h"

namespace megalith::engine {

DeviceBatch::DeviceBatch(device::Device& device, const data::HostBatch& host, int64_t max_sequences,
                         double global_weight, const TokenPart& part)
    : arrays_(device), cu_seqlens_(host.cu_seqlens) {
  const int64_t tokens = host.num_tokens(), sequences = host.num_sequences(),
                length = host.sequence_length;
  MEGA_CHECK_LE(sequences, max_sequences);
  std::vector<int64_t> sample_position_S(static_cast<size_t>(sequences));
  for (size_t s = 0; s < sample_position_S.size(); ++s)
    sample_position_S[s] = cu_seqlens_[s] % length;

  batch_.num_tokens = tokens;
  batch_.num_samples = host.num_samples;
  batch_.ids_T = arrays_.place<int32_t>(host.ids_T);
  batch_.position_T = arrays_.place<int32_t>(host.position_T);
  batch_.targets_T = arrays_.place<int32_t>(host.targets_T);
  batch_.loss_weight_T = arrays_.place<float>(host.loss_weight_T);
  place_own_tokens(host, part);
  batch_.cu_seqlens = cu_seqlens_;
  batch_.cu_seqlens_device = arrays_.place<int32_t>(cu_seqlens_, max_sequences + 1);
  batch_.sample_S = arrays_.place<int64_t>(host.sequence_sample, max_sequences);
  batch_.sample_position_S = arrays_.place<int64_t>(sample_position_S, max_sequences);
  batch_.loss_scale = static_cast<float>(1.0 / global_weight);
}

void DeviceBatch::place_own_tokens(const data::HostBatch& host, const TokenPart& part) {
  const int64_t length = host.sequence_length;
  const int64_t each = exact_div(length, static_cast<int64_t>(part.count));
  std::vector<int32_t> position, sample_position;
  std::vector<int64_t> sample_of;
  for (int64_t sample = 0; sample < host.num_samples; ++sample) {
    for (int64_t at = part.index * each; at < (part.index + 1) * each; ++at) {
      position.push_back(host.position_T[static_cast<size_t>(sample * length + at)]);
      sample_of.push_back(host.first_sample + sample);
      sample_position.push_back(static_cast<int32_t>(at));
    }
  }
  layers::OwnTokens& own = batch_.own;
  own.count = std::ssize(position);
  own.per_sample = each;
  own.position_T = part.count == 1 ? batch_.position_T : arrays_.place<int32_t>(position);
  own.sample_T = arrays_.place<int64_t>(sample_of);
  own.sample_position_T = arrays_.place<int32_t>(sample_position);
}

}  // namespace megalith::engine
