// SPDX-License-Identifier: Apache-2.0
// Where the batches of a run come from. Sample number n is a function of n alone, whatever was
// asked for before, so a run's position in its data is one integer.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "data/host_batch.h"

namespace megalith::data {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Tokens of a sample; of an encoder-decoder's, those of the decoder.
  virtual int64_t sequence_length() const = 0;
  /// Tokens of a sample that its encoder reads; 0: there is none.
  virtual int64_t encoder_length() const { return 0; }
  virtual int64_t samples_per_epoch() const = 0;
  /// Tasks whose losses a validation also tells one by one (HostBatch::sequence_task); 0: none.
  virtual int64_t num_tasks() const { return 0; }
  /// Overwrites `batch`, reusing its memory, with the samples [first, first + count). Any thread.
  virtual void fill(int64_t first, int64_t count, HostBatch& batch) const = 0;
  /// The sum of the loss weights of a sample where all have the same; nothing where it depends on
  /// the tokens.
  virtual std::optional<double> sample_weight() const = 0;
  /// A digest of everything that the samples are made of.
  virtual std::string fingerprint(const AtWork& at_work) const = 0;
  /// Whether a checkpoint that recorded `recorded` was trained on this source, whose fingerprint is
  /// `mine`.
  virtual bool has_fingerprint(const std::string& recorded, const std::string& mine) const {
    return recorded == mine;
  }
};

/// Runs of tokens out of packed corpora: next-token prediction.
class CorpusSource final : public BatchSource {
 public:
  CorpusSource(const std::vector<Corpus>& corpora, const SamplerOptions& sampler,
               const BatchOptions& options, ChangeTokens change = {})
      : sampler_(corpora, sampler), options_(options), change_(std::move(change)) {}
  int64_t sequence_length() const override { return sampler_.sequence_length(); }
  int64_t samples_per_epoch() const override { return sampler_.samples_per_epoch(); }
  void fill(int64_t first, int64_t count, HostBatch& batch) const override {
    fill_batch(sampler_, first, count, options_, batch, change_);
  }
  std::optional<double> sample_weight() const override {
    if (!options_.end_of_document_loss || sampler_.has_whole_documents()) return std::nullopt;
    return static_cast<double>(sampler_.sequence_length());
  }
  const Sampler& sampler() const { return sampler_; }
  std::string fingerprint(const AtWork& at_work) const override {
    return sampler_.fingerprint(at_work);
  }
  bool has_fingerprint(const std::string& recorded, const std::string& mine) const override {
    return sampler_.has_fingerprint(recorded, mine);
  }

 private:
  Sampler sampler_;
  BatchOptions options_;
  ChangeTokens change_;
};

}  // namespace megalith::data
