// SPDX-License-Identifier: Apache-2.0
// Whole sequences through a model, many in one pass and none of them padded: what encoders are for.
// A sequence's results have the same bits whatever is read beside it.
//
// All ranks of the model make the same calls with the same sequences. Everything here is collective
// over them and gives the same on every rank; nothing on the trace kind, which has no values.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "inference/inference_engine.h"

namespace megalith::inference {

struct TextSequences;

/// One sequence to read.
struct Reading {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  // of tokens; empty: all 0
};

/// UserError in words about one line: no tokens, too many, one outside the vocabulary, types that
/// the model does not have.
void check_readable(const models::ModelSpec& spec, const Reading& reading);
/// UserError unless the model is an encoder with a language model's head.
void require_masked_head(const models::ModelSpec& spec);
/// UserError unless the model has outputs beside logits: classes, or numbers.
void require_outputs(const models::ModelSpec& spec);

/// UserError when an output is not finite: a NaN has no place in an order.
void require_finite(std::span<const std::vector<std::vector<double>>> outputs);

/// UserError where virtual tokens stand before texts.
class SequenceReader {
 public:
  /// `model` must outlive it; its weights are read as they are at each call.
  explicit SequenceReader(engine::ShardedModel& model) : model_(model) {}

  /// A pooled row of the last hidden state (Decoder::last_hidden) for each sequence.
  std::vector<std::vector<double>> embed(std::span<const Reading> readings,
                                         kernels::Pooling pooling);
  /// For each sequence the outputs of the head: one row, or one for each token where
  /// layers::reads_each_token.
  std::vector<std::vector<std::vector<double>>> outputs(std::span<const Reading> readings);
  /// log p(ids[i] | all others) for every i: of the sequence with `mask_id` in place i.
  std::vector<double> masked_scores(const Reading& reading, int32_t mask_id);

 private:
  /// Called with the output of the last block, on the last stage alone; gives rows of numbers.
  using Finish =
      std::function<std::vector<double>(layers::Context&, const layers::Batch&, ConstView x_TH)>;
  std::vector<double> read(const TextSequences& sequences, const Finish& finish);
  engine::ShardedModel& model_;
};

}  // namespace megalith::inference
