// SPDX-License-Identifier: Apache-2.0
// Samples for two questions at once: which tokens are hidden (masking.h) and how the two stretches
// of a sentence pair belong together (sentence_pair.h). A sample is one pair, made of a row of a
// sentence-level corpus (sentence_rows.h), and, as far as the pair is shorter than a sample, the
// text behind the row, each document a sequence of its own: of those tokens are hidden too, and
// nothing is asked about pairs. So nothing is padded, and each sample has one pair.
//
// The rows of a corpus are worked out once, from the lengths of its sentences alone, and serve all
// epochs; each epoch is its own keyed permutation of them and draws pairs and masks anew.
#pragma once

#include <memory>

#include "data/batch_source.h"
#include "objectives/masking.h"
#include "objectives/sentence_pair.h"
#include "objectives/sentence_rows.h"

namespace megalith::objectives {

/// [CLS] and [SEP].
struct PairTokens {
  int32_t begin = 0, separator = 0;
};
/// UserError when the tokenizer lacks one.
PairTokens pair_tokens(const text::Tokenizer& tokenizer);

struct PairSourceOptions {
  PairRelation relation = PairRelation::next;
  PairTokens tokens;
  MaskingOptions masking;
  uint64_t seed = 0;  // of what is drawn, apart from that of the samples' order
};

class PairSource final : public data::BatchSource {
 public:
  /// UserError when a corpus has no pair, or fewer tokens than a sample. Reads the lengths of all
  /// sentences.
  PairSource(const std::vector<data::Corpus>& corpora, const data::SamplerOptions& sampler,
             MaskableTokens maskable, const PairSourceOptions& options);

  int64_t sequence_length() const override { return sampler_.sequence_length; }
  int64_t samples_per_epoch() const override { return samples_per_epoch_; }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override;
  std::optional<double> sample_weight() const override { return std::nullopt; }
  std::string fingerprint(const data::AtWork& at_work) const override;

 private:
  struct Part {
    std::shared_ptr<const data::IndexedDataset> dataset;
    Range tokens;
    std::vector<SentenceRow> rows;
    uint64_t key = 0;
  };
  Part open_part(const data::Corpus& corpus, int64_t ordinal) const;
  data::SampleAddress locate(int64_t n) const;
  SentencePair pair_of(const Part& part, int64_t index, uint64_t key) const;
  void append_sample(int64_t n, data::HostBatch& batch) const;

  data::SamplerOptions sampler_;
  MaskableTokens maskable_;
  PairSourceOptions options_;
  uint64_t pair_key_, mask_key_;
  std::vector<Part> parts_;
  data::Blend blend_;
  int64_t samples_per_epoch_ = 0;
};

}  // namespace megalith::objectives
