// SPDX-License-Identifier: Apache-2.0
#include "objectives/masked_source.h"

#include <numeric>
#include <utility>

#include "math/random.h"
#include "objectives/draws.h"

namespace megalith::objectives {

MaskedSource::MaskedSource(const std::vector<data::Corpus>& corpora,
                           const data::SamplerOptions& sampler, const data::BatchOptions& batches,
                           MaskableTokens tokens, const MaskingOptions& masking, uint64_t seed)
    : corpus_(corpora, sampler, batches),
      tokens_(std::move(tokens)),
      masking_(masking),
      key_(random_key(seed, "masking")) {}

void MaskedSource::fill(int64_t first, int64_t count, data::HostBatch& batch) const {
  corpus_.fill(first, count, batch);
  const auto length = static_cast<size_t>(sequence_length());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const auto of_sample = [&](auto& column) {
      return std::span(column).subspan(i * length, length);
    };
    const auto address = corpus_.sampler().locate(first + static_cast<int64_t>(i));
    mask_sample(tokens_, masking_, sample_key(key_, address), of_sample(batch.ids_T),
                of_sample(batch.targets_T), of_sample(batch.loss_weight_T));
  }
  batch.total_weight = std::accumulate(batch.loss_weight_T.begin(), batch.loss_weight_T.end(), 0.0);
}

}  // namespace megalith::objectives
