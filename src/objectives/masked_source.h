// SPDX-License-Identifier: Apache-2.0
// Samples out of packed corpora with some of their tokens hidden: the masked language model's. They
// hold the same tokens as those of next-token prediction. What is hidden is drawn anew in each
// epoch, keyed by (seed, corpus, epoch, place of the sample in the corpus, position in the sample),
// so that no layout, batch size or resume changes it.
#pragma once

#include "data/batch_source.h"
#include "objectives/masking.h"

namespace megalith::objectives {

class MaskedSource final : public data::BatchSource {
 public:
  /// `seed` is of what is hidden, apart from that of the samples' order.
  MaskedSource(const std::vector<data::Corpus>& corpora, const data::SamplerOptions& sampler,
               const data::BatchOptions& batches, MaskableTokens tokens,
               const MaskingOptions& masking, uint64_t seed);

  int64_t sequence_length() const override { return corpus_.sequence_length(); }
  int64_t samples_per_epoch() const override { return corpus_.samples_per_epoch(); }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override;
  std::optional<double> sample_weight() const override { return std::nullopt; }
  std::string fingerprint(const data::AtWork& at_work) const override {
    return corpus_.fingerprint(at_work);
  }
  bool has_fingerprint(const std::string& recorded, const std::string& mine) const override {
    return corpus_.has_fingerprint(recorded, mine);
  }

 private:
  data::CorpusSource corpus_;
  MaskableTokens tokens_;
  MaskingOptions masking_;
  uint64_t key_;
};

}  // namespace megalith::objectives
