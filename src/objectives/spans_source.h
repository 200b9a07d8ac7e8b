// SPDX-License-Identifier: Apache-2.0
// Samples out of packed corpora with spans of their tokens hidden, for encoder-decoders: the
// encoder reads what is left, the decoder says the rest (spans.h). Each sample is SpanCounts::raw
// consecutive tokens of a corpus and has the same lengths as all others, so that nothing is padded.
// What is hidden is keyed like what masked_source.h hides.
#pragma once

#include <string>

#include "data/batch_source.h"
#include "objectives/spans.h"
#include "text/tokenizer.h"

namespace megalith::objectives {

/// How a tokenizer spells what is not text.
struct SpanSpelling {
  std::string sentinel = "<extra_id_{}>";  // {}: a number from 0
  std::string start = "<pad>";
};

/// The ids of `sentinels` sentinels, the start and the end of documents. UserError when the
/// tokenizer lacks one.
SpanTokens span_tokens(const text::Tokenizer& tokenizer, const SpanSpelling& spelling,
                       int64_t sentinels);

class SpansSource final : public data::BatchSource {
 public:
  /// `sampler.sequence_length` is counts.raw. `seed` is of what is hidden, apart from that of the
  /// samples' order.
  SpansSource(const std::vector<data::Corpus>& corpora, const data::SamplerOptions& sampler,
              const SpanCounts& counts, SpanTokens tokens, uint64_t seed);

  int64_t sequence_length() const override { return counts_.decoder_length(); }
  int64_t encoder_length() const override { return counts_.encoder_length(); }
  int64_t samples_per_epoch() const override { return sampler_.samples_per_epoch(); }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override;
  std::optional<double> sample_weight() const override {
    return static_cast<double>(counts_.decoder_length());
  }
  std::string fingerprint(const data::AtWork& at_work) const override {
    return sampler_.fingerprint(at_work);
  }
  bool has_fingerprint(const std::string& recorded, const std::string& mine) const override {
    return sampler_.has_fingerprint(recorded, mine);
  }

 private:
  data::Sampler sampler_;
  SpanCounts counts_;
  SpanTokens tokens_;
  uint64_t key_;
};

}  // namespace megalith::objectives
