// SPDX-License-Identifier: Apache-2.0
// The order of the training data as a pure function: sample n (its number since the start of the
// run, which is the whole position of a run) -> corpus, epoch, place, tokens. Nothing is built at
// the start, and nothing depends on batch size, ranks or threads.
//
// A corpus of T tokens has N = floor((T-1)/S) samples of S + 1 tokens per epoch. Sample i is the
// tokens [i S, i S + S]: neighbours share one token (a target in one, an input in the other), and
// every token except the first and a short tail is predicted once. Each epoch is its own keyed
// permutation, and no sample crosses into the next. With whole documents sample i is row i of
// document_rows.h instead: as many tokens, but whole documents as far as they fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/blend.h"
#include "data/document_rows.h"

namespace megalith::data {

struct Corpus {
  std::filesystem::path prefix;
  /// Share of the samples. Either all corpora have a weight or none. Without, the weight is the
  /// number of samples, so that one epoch of the blend is one epoch of each corpus.
  std::optional<double> weight;
};

/// A corpus is cut where a document begins: its last floor(fraction * documents) documents (at
/// least one unless the fraction is 0) are for validation, those before them for training.
enum class Split { train, validation };

struct SamplerOptions {
  int64_t sequence_length = 0;  // S
  int64_t vocab_size = 0;
  uint64_t seed = 0;
  double validation_fraction = 0;  // [0, 1)
  Split split = Split::train;
  bool shuffle = true;  // false: samples of an epoch in the order of the files
  bool whole_documents = false;
};

/// The documents of the split.
Range split_documents(const IndexedDataset& dataset, const SamplerOptions& options);
/// By their weights; without, an epoch of the blend is one epoch, `samples`, of each. UserError if
/// some have a weight.
Blend blend_of(const std::vector<Corpus>& corpora, std::span<const int64_t> samples);

/// Where a sample lies.
struct SampleAddress {
  int64_t corpus = 0;
  int64_t epoch = 0;        // of the corpus, from 0
  int64_t index = 0;        // place in the corpus after permutation, [0, samples per epoch)
  int64_t first_token = 0;  // of S + 1 consecutive tokens of the corpus, where it is such
};

class Sampler {
 public:
  /// Opens the corpora. UserError if there are none, if weights are mixed or invalid, or if a
  /// corpus (or the used part of one) is shorter than S + 1 tokens.
  Sampler(const std::vector<Corpus>& corpora, const SamplerOptions& options);

  int64_t sequence_length() const { return options_.sequence_length; }
  int64_t num_corpora() const { return static_cast<int64_t>(parts_.size()); }
  /// Samples of one epoch: of one corpus, or of all together.
  int64_t samples_per_epoch(int64_t corpus) const;
  int64_t samples_per_epoch() const { return samples_per_epoch_; }
  /// Samples of `epochs` epochs of all together; UserError if there are 2^62 or more.
  int64_t total_samples(int64_t epochs) const;
  /// Tokens of all corpora (of the split).
  int64_t num_tokens() const;
  /// IndexedDataset::fingerprint of each corpus, in order, with "+" between.
  std::string fingerprint(const AtWork& at_work = {}) const;
  /// True if a checkpoint that recorded `recorded` was trained on these corpora, whose fingerprint
  /// is `mine`. A record older than fingerprints of all bytes is compared in its own way.
  bool has_fingerprint(const std::string& recorded, const std::string& mine) const;

  SampleAddress locate(int64_t n) const;
  /// Overwrites tokens (S + 1 of them) with sample n, which is consecutive tokens. Any thread.
  void read(int64_t n, std::span<int32_t> tokens) const;
  bool has_whole_documents() const { return options_.whole_documents; }
  /// The sequences of sample n of whole documents, S tokens together. Any thread.
  std::vector<Piece> pieces(int64_t n) const;
  /// Overwrites tokens with those of a piece of a corpus, and the one behind where it is followed.
  void read(int64_t corpus, const Piece& piece, std::span<int32_t> tokens) const;

 private:
  struct Part {
    std::shared_ptr<const IndexedDataset> dataset;
    Range tokens;
    int64_t samples = 0;  // per epoch
    uint64_t key = 0;
  };
  static Part open_part(const Corpus& corpus, int64_t ordinal, const SamplerOptions& options);

  SamplerOptions options_;
  std::vector<Part> parts_;
  Blend blend_;
  int64_t samples_per_epoch_ = 0;
};

}  // namespace megalith::data
