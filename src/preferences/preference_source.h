// SPDX-License-Identifier: Apache-2.0
// Preferences as the samples of a run: whole pairs, as many as fit into a sample (packing.h), both
// answers sequences of their own side by side, each behind its prompt, that attention keeps apart
// and whose positions begin at 0. So a pair's loss, and the step's, are those of the pair alone, to
// the bit, and whoever has the sample has all of the pair. What is left of a sample is one sequence
// more, of token 0, which weighs nothing. A pair is a unit of loss; it weighs 1.
#pragma once

#include <memory>
#include <mutex>

#include "data/batch_source.h"
#include "preferences/preference_file.h"
#include "tune/example_source.h"

namespace megalith::tune {

/// What the reference says of both answers of each pair, chosen first: log-probabilities. Ranks of
/// one process share it.
class ReferenceTable {
 public:
  /// Any thread; before it, or those that it begins, read them. What others set first stays, and is
  /// the same.
  void set(std::vector<float> values);
  /// Empty until they are set.
  const std::vector<float>& values() const { return values_; }

 private:
  std::mutex setting_;
  std::vector<float> values_;
};

class PreferenceSource final : public data::BatchSource {
 public:
  /// UserError as require_ids(). Of the options `numbers` is not read.
  PreferenceSource(std::vector<Preference> pairs, const ExampleSourceOptions& options);

  /// The same pairs in the order of another seed, without another copy of them, and without numbers
  /// of a reference.
  PreferenceSource(const PreferenceSource& of, uint64_t seed);

  int64_t sequence_length() const override { return options_.sequence_length; }
  int64_t samples_per_epoch() const override { return std::ssize(samples_); }
  /// Numbers of the reference are 0 until they are set.
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override;
  std::optional<double> sample_weight() const override { return std::nullopt; }
  /// Not of the reference.
  std::string fingerprint(const data::AtWork& at_work) const override;

  ReferenceTable& reference() const { return *reference_; }
  /// Numbers of the pairs of sample n of a run, in their order in it.
  const std::vector<int64_t>& pairs_of(int64_t n) const {
    return samples_[static_cast<size_t>(order_.index_of(n, samples_per_epoch()))];
  }

  int64_t num_pairs() const { return std::ssize(*pairs_); }
  /// Of all pairs, and of them those that are learned.
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_learned() const { return num_learned_; }
  /// Most tokens of a sample that are.
  int64_t most_learned() const { return most_learned_; }

 private:
  void append_sample(int64_t n, data::HostBatch& batch) const;

  ExampleSourceOptions options_;
  SampleOrder order_;
  std::shared_ptr<const std::vector<Preference>> pairs_;
  std::vector<std::vector<int64_t>> samples_;  // pairs of each
  std::unique_ptr<ReferenceTable> reference_ = std::make_unique<ReferenceTable>();
  int64_t num_tokens_ = 0, num_learned_ = 0, most_learned_ = 0;
};

}  // namespace megalith::tune
