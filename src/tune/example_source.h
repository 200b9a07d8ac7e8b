// SPDX-License-Identifier: Apache-2.0
// Examples as the samples of a run: whole ones, as many as fit into a sample (packing.h), each a
// sequence of its own that attention keeps apart and whose positions begin at 0. So an example's
// losses, and the step's, are those of the example alone, to the bit. What is left of a sample is
// one sequence more, of token 0, which weighs nothing.
//
// Of examples with targets each sequence is a unit of loss (heads/head.h), and what fills a sample
// is one of weight 0. Of examples with labels each token is a unit, of weight 0 without a label. Of
// examples for an encoder-decoder both sides are packed together, and what fills a sample may have
// tokens of one side alone.
//
// An epoch is every sample once, in an order of its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch_source.h"
#include "tune/example_file.h"
#include "tune/sample_order.h"

namespace megalith::tune {

struct ExampleSourceOptions {
  int64_t sequence_length = 0;  // S, of an encoder-decoder of its decoder: no example is longer
  int64_t vocab_size = 0;
  int64_t virtual_tokens = 0;  // that every example begins with, behind the vocabulary
  bool has_marks = false;      // or has inside, whose ids are checked (adapters/prompt_marks.h)
  uint64_t seed = 0;
  bool shuffle = true;
  bool numbers = false;        // targets are numbers, not classes
  bool spans = false;          // or they are answer spans: the first and the last token
  int64_t encoder_length = 0;  // tokens of a sample that an encoder reads; 0: there is none
  int64_t num_tasks = 0;       // that the examples are of, each of one; 0: there are none
};

/// UserError when an id behind the virtual tokens is none of the vocabulary's: at or above it one
/// would be read as a virtual token. Nothing of texts that have marks.
void require_ids(const std::vector<int32_t>& ids, const ExampleSourceOptions& options);

class ExampleSource final : public data::BatchSource {
 public:
  /// UserError as require_ids().
  ExampleSource(const std::vector<Example>& examples, const ExampleSourceOptions& options);

  int64_t sequence_length() const override { return options_.sequence_length; }
  int64_t encoder_length() const override { return options_.encoder_length; }
  int64_t samples_per_epoch() const override { return std::ssize(samples_); }
  int64_t num_tasks() const override { return options_.num_tasks; }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override;
  /// The same in the order of another seed.
  void fill_in_order(uint64_t seed, int64_t first, int64_t count, data::HostBatch& batch) const;
  std::optional<double> sample_weight() const override { return std::nullopt; }
  std::string fingerprint(const data::AtWork& at_work) const override;

  /// The examples in sample n of a run, in order. Of a source that is not shuffled.
  std::span<const int64_t> examples_of(int64_t n) const;

  int64_t num_examples() const { return std::ssize(begins_) - 1; }
  /// Of all examples, and of them those that are learned.
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_learned() const { return num_learned_; }
  /// Tokens of all examples that an encoder reads.
  int64_t num_read() const { return std::ssize(read_ids_); }
  /// Most tokens of a sample that are.
  int64_t most_learned() const { return most_learned_; }
  /// Examples of each task in the first `samples` samples, at most an epoch, of a source with tasks
  /// that does not shuffle.
  std::vector<int64_t> examples_of_tasks(int64_t samples) const;

 private:
  void append_sample(const SampleOrder& order, int64_t n, data::HostBatch& batch) const;
  void append_example(size_t example, data::HostBatch& batch) const;
  std::span<const int32_t> read_of(size_t example) const {
    return std::span(read_ids_).subspan(
        static_cast<size_t>(read_begins_[example]),
        static_cast<size_t>(read_begins_[example + 1] - read_begins_[example]));
  }
  void end_sequence(int64_t sample, std::optional<size_t> example, data::HostBatch& batch) const;

  ExampleSourceOptions options_;
  std::vector<int32_t> ids_;                   // example after example
  std::vector<uint8_t> learned_;               // of each id
  std::vector<int32_t> types_;                 // likewise; empty: all 0
  std::vector<int64_t> begins_;                // of examples, and the end
  std::vector<int32_t> labels_;                // of each id; empty: of none
  std::vector<int32_t> read_ids_;              // of their encoder, one after another
  std::vector<int64_t> read_begins_;           // and where they begin
  std::vector<Target> targets_;                // of examples; empty: tokens are learned
  bool numbers_;                               // they are numbers
  std::vector<int32_t> tasks_;                 // of examples; empty: there are none
  std::vector<std::vector<int64_t>> samples_;  // examples of each
  int64_t num_tokens_ = 0, num_learned_ = 0, most_learned_ = 0;
};

/// The same examples in the order of another seed, without another copy of them.
class ReorderedSource final : public data::BatchSource {
 public:
  ReorderedSource(std::shared_ptr<const ExampleSource> of, uint64_t seed)
      : of_(std::move(of)), seed_(seed) {}
  int64_t sequence_length() const override { return of_->sequence_length(); }
  int64_t encoder_length() const override { return of_->encoder_length(); }
  int64_t samples_per_epoch() const override { return of_->samples_per_epoch(); }
  int64_t num_tasks() const override { return of_->num_tasks(); }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override {
    of_->fill_in_order(seed_, first, count, batch);
  }
  std::optional<double> sample_weight() const override { return of_->sample_weight(); }
  std::string fingerprint(const data::AtWork& at_work) const override {
    return of_->fingerprint(at_work);
  }

 private:
  std::shared_ptr<const ExampleSource> of_;
  uint64_t seed_;
};

}  // namespace megalith::tune
