// SPDX-License-Identifier: Apache-2.0
#include "objectives/masked_source.h"

#include <numeric>
#include <utility>

#include "math/random.h"

namespace megalith::objectives {

MaskedSource::MaskedSource(const std::vector<data::Corpus>& corpora,
                           const data::SamplerOptions& sampler, const data::BatchOptions& batches,
                           MaskableTokens tokens, const MaskingOptions& masking, uint64_t seed)
    : corpus_(corpora, sampler, batches),
      tokens_(std::move(tokens)),
      masking_(masking),
      key_(random_key(seed, "masking")) {}

uint64_t MaskedSource::key_of(int64_t sample) const {
  const data::SampleAddress address = corpus_.sampler().locate(sample);
  uint64_t key = key_;
  for (const int64_t part : {address.corpus, address.epoch, address.index})
    key = random_key(key, static_cast<uint64_t>(part));
  return key;
}

void MaskedSource::fill(int64_t first, int64_t count, data::HostBatch& batch) const {
  corpus_.fill(first, count, batch);
  const auto length = static_cast<size_t>(sequence_length());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const auto of_sample = [&](auto& column) {
      return std::span(column).subspan(i * length, length);
    };
    mask_sample(tokens_, masking_, key_of(first + static_cast<int64_t>(i)), of_sample(batch.ids_T),
                of_sample(batch.targets_T), of_sample(batch.loss_weight_T));
  }
  batch.total_weight = std::accumulate(batch.loss_weight_T.begin(), batch.loss_weight_T.end(), 0.0);
}

}  // namespace megalith::objectives
