// SPDX-License-Identifier: Apache-2.0
// Meaning of the masks as in Megatron: a position is reset, and a sequence ends, behind the end of
// document, which itself still belongs to the document it ends; the loss mask is set where the end
// of document is the input (its target is the first token of a document it knows nothing of).
#include "data/host_batch.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/integer.h"

namespace megalith::data {
namespace {

void append_sample(std::span<const int32_t> tokens, int64_t sample, const BatchOptions& options,
                   HostBatch& batch) {
  const size_t length = tokens.size() - 1;
  const auto begin = static_cast<int32_t>(batch.ids_T.size());
  batch.ids_T.insert(batch.ids_T.end(), tokens.begin(), tokens.end() - 1);
  batch.targets_T.insert(batch.targets_T.end(), tokens.begin() + 1, tokens.end());
  int32_t position = 0;
  for (size_t i = 0; i < length; ++i) {
    const bool ends = options.end_of_document && tokens[i] == *options.end_of_document;
    const bool weighted = !ends || options.end_of_document_loss;
    batch.position_T.push_back(position++);
    batch.loss_weight_T.push_back(weighted ? 1.0f : 0.0f);
    batch.total_weight += weighted ? 1 : 0;
    if (ends && options.reset_positions) position = 0;
    if ((ends && options.document_mask) || i + 1 == length) {
      batch.cu_seqlens.push_back(begin + static_cast<int32_t>(i) + 1);
      batch.sequence_sample.push_back(sample);
    }
  }
}

/// The sequences of a sample of whole documents. The last token of one has no target.
void append_documents(const Sampler& sampler, int64_t sample, HostBatch& batch) {
  constexpr int32_t kNoTarget = -1;
  const int64_t corpus = sampler.locate(sample).corpus;
  std::vector<int32_t> tokens;
  for (const Piece& piece : sampler.pieces(sample)) {
    const auto length = static_cast<size_t>(piece.tokens.size());
    tokens.resize(length + (piece.followed ? 1 : 0));
    sampler.read(corpus, piece, tokens);
    if (!piece.followed) tokens.push_back(kNoTarget);
    batch.ids_T.insert(batch.ids_T.end(), tokens.begin(), tokens.end() - 1);
    batch.targets_T.insert(batch.targets_T.end(), tokens.begin() + 1, tokens.end());
    for (size_t i = 0; i < length; ++i) {
      const bool weighted = piece.followed || i + 1 < length;
      batch.position_T.push_back(static_cast<int32_t>(i));
      batch.loss_weight_T.push_back(weighted ? 1.0f : 0.0f);
      batch.total_weight += weighted ? 1 : 0;
    }
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.ids_T.size()));
    batch.sequence_sample.push_back(sample);
  }
}

void check_options(const BatchOptions& options) {
  const bool needed =
      options.document_mask || options.reset_positions || !options.end_of_document_loss;
  MEGA_CHECK(!needed || options.end_of_document.has_value(),
             "masks at documents need an end-of-document token");
}

}  // namespace

void HostTokens::clear(int64_t first, int64_t length) {
  first_sample = first;
  num_samples = 0;
  sequence_length = length;
  ids_T.clear();
  position_T.clear();
  type_T.clear();
  cu_seqlens.assign(1, 0);
  sequence_sample.clear();
}

void HostBatch::begin(int64_t first, int64_t count, int64_t length) {
  const auto total = checked_multiply(count, length);
  MEGA_CHECK(count >= 0 && total && *total <= std::numeric_limits<int32_t>::max(),
             "{} samples of {} tokens", count, length);
  clear(first, length);
  num_samples = count;
  targets_T.clear();
  target_numbers.clear();
  loss_weight_T.clear();
  compared_rows.clear();
  sequence_task.clear();
  total_weight = 0;
}

void fill_batch(const Sampler& sampler, int64_t first, int64_t count, const BatchOptions& options,
                HostBatch& batch, const ChangeTokens& change) {
  check_options(options);
  const int64_t length = sampler.sequence_length();
  batch.begin(first, count, length);
  const auto num_tokens = static_cast<size_t>(count * length);
  for (auto* column : {&batch.ids_T, &batch.targets_T, &batch.position_T}) {
    column->reserve(num_tokens);
  }
  batch.loss_weight_T.reserve(num_tokens);
  if (sampler.has_whole_documents()) {
    MEGA_CHECK(!change && !options.document_mask && !options.reset_positions,
               "whole documents are neither changed nor cut");
    for (int64_t i = 0; i < count; ++i) append_documents(sampler, first + i, batch);
    return;
  }
  std::vector<int32_t> tokens(static_cast<size_t>(length + 1));
  for (int64_t i = 0; i < count; ++i) {
    sampler.read(first + i, tokens);
    if (change) change(sampler.locate(first + i), tokens);
    append_sample(tokens, first + i, options, batch);
  }
}

HostBatch make_batch(const Sampler& sampler, int64_t first, int64_t count,
                     const BatchOptions& options) {
  HostBatch batch;
  fill_batch(sampler, first, count, options, batch);
  return batch;
}

namespace {

template <typename T>
void keep_first(std::vector<T>& values, size_t count) {
  if (values.size() > count) values.resize(count);
}

void keep_first_sample(HostTokens& tokens) {
  if (tokens.num_samples <= 1) return;
  const auto length = static_cast<size_t>(tokens.sequence_length);
  const auto sequences = static_cast<size_t>(
      std::ranges::count(tokens.sequence_sample, tokens.sequence_sample.front()));
  tokens.num_samples = 1;
  keep_first(tokens.ids_T, length);
  keep_first(tokens.position_T, length);
  keep_first(tokens.type_T, length);
  keep_first(tokens.sequence_sample, sequences);
  keep_first(tokens.cu_seqlens, sequences + 1);
}

/// Those of the first sample, which is alone by now; how many.
size_t keep_first_compared(HostBatch& batch) {
  size_t count = 0;
  while (3 * count < batch.compared_rows.size() &&
         batch.compared_rows[3 * count] < batch.sequence_length)
    ++count;
  keep_first(batch.compared_rows, 3 * count);
  return count;
}

}  // namespace

HostBatch first_sample(const HostBatch& batch) {
  HostBatch first = batch;
  if (first.encoder.num_samples > 0) keep_first_sample(first.encoder);
  const bool of_tokens = batch.loss_weight_T.size() == batch.ids_T.size();
  keep_first_sample(first);
  const auto tokens = static_cast<size_t>(first.num_tokens());
  size_t units = of_tokens ? tokens : static_cast<size_t>(first.num_sequences());
  if (!batch.compared_rows.empty()) units = keep_first_compared(first);
  const size_t all = batch.loss_weight_T.size();
  const size_t numbers = all == 0 ? 0 : batch.target_numbers.size() / all;
  const size_t targets = all == 0 ? 0 : batch.targets_T.size() / all;
  keep_first(first.loss_weight_T, units);
  keep_first(first.targets_T, batch.compared_rows.empty() ? units * targets : tokens);
  keep_first(first.target_numbers, units * numbers);
  keep_first(first.pair_targets, 1);
  keep_first(first.sequence_task, static_cast<size_t>(first.num_sequences()));
  first.total_weight = 0;
  for (const float weight : first.loss_weight_T) first.total_weight += static_cast<double>(weight);
  return first;
}

}  // namespace megalith::data
