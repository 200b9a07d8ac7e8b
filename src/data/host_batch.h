// SPDX-License-Identifier: Apache-2.0
// A micro-batch in host memory, ragged: the tokens of all sequences one after another, with the row
// numbers where sequences begin. Each sample gives exactly S tokens. It is one sequence, or with a
// document mask one sequence per document in it, which keeps attention within documents; of whole
// documents each is a sequence whose positions begin at 0. Masks depend on the tokens alone, never
// on neighbouring samples.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/sampler.h"

namespace megalith::data {

struct BatchOptions {
  /// Required by the three options below; a check fails without it.
  std::optional<int32_t> end_of_document;
  bool document_mask = false;        // a new sequence behind each end-of-document token
  bool reset_positions = false;      // position 0 behind each end-of-document token
  bool end_of_document_loss = true;  // false: weight 0 where the input is an end of document
};

/// What a stack of layers reads: T = num_samples * S tokens. Token t is token t % S of sample
/// first_sample + t / S.
struct HostTokens {
  int64_t first_sample = 0;
  int64_t num_samples = 0;
  int64_t sequence_length = 0;  // S
  std::vector<int32_t> ids_T;
  std::vector<int32_t> position_T;
  std::vector<int32_t> type_T;           // of segments; empty: all 0
  std::vector<int32_t> cu_seqlens;       // num_sequences() + 1 entries, from 0 to T
  std::vector<int64_t> sequence_sample;  // the sample (its global number) of each sequence

  int64_t num_tokens() const { return static_cast<int64_t>(ids_T.size()); }
  int64_t num_sequences() const { return static_cast<int64_t>(sequence_sample.size()); }
  /// No samples, memory kept; those to come begin with `first` and have `length` tokens each.
  void clear(int64_t first, int64_t length);
};

/// Of an encoder-decoder: the decoder's tokens, which have the losses.
struct HostBatch : HostTokens {
  // Targets and weights are of what the model's head makes losses of: tokens, or whole sequences
  // (one of each instead of T; of answer spans two targets, the indices of the first and the last
  // token in the sequence). Corpora give those of tokens, weight 0 or 1.
  std::vector<int32_t> targets_T;
  std::vector<float> target_numbers;  // instead, of heads that predict numbers: unit after unit
  std::vector<float> loss_weight_T;
  std::vector<int32_t> pair_targets;  // of each sample's sentence pair; empty: nothing is asked
  /// Of pairs of answers that are compared three numbers each, in order: the token where the chosen
  /// one begins, where the rejected one does right behind it, and the end. Then weights are of
  /// pairs, targets_T of tokens (below 0: not learned), and target_numbers two of a pair: what a
  /// reference says of its answers.
  std::vector<int32_t> compared_rows;
  double total_weight = 0;  // sum of loss_weight_T
  /// Which of BatchSource::num_tasks() each sequence is of; -1: of none, and weighs nothing. Empty:
  /// there are no tasks.
  std::vector<int32_t> sequence_task;
  /// What an encoder reads of the same samples; without tokens where there is none. Sequence i of
  /// the decoder looks at sequence i of the encoder.
  HostTokens encoder;

  /// clear() for `count` samples, which the caller appends; clears targets and weights too.
  void begin(int64_t first, int64_t count, int64_t length);
  int64_t num_compared() const { return static_cast<int64_t>(compared_rows.size()) / 3; }
};

/// The first sample of a batch, alone.
HostBatch first_sample(const HostBatch& batch);

/// Puts others in the place of a sample's S + 1 tokens. Any thread.
using ChangeTokens = std::function<void(const SampleAddress& address, std::span<int32_t> tokens)>;

/// Overwrites `batch`, reusing its memory, with the samples [first, first + count), which `change`
/// changes if there is one.
void fill_batch(const Sampler& sampler, int64_t first, int64_t count, const BatchOptions& options,
                HostBatch& batch, const ChangeTokens& change = {});
HostBatch make_batch(const Sampler& sampler, int64_t first, int64_t count,
                     const BatchOptions& options);

}  // namespace megalith::data
