// SPDX-License-Identifier: Apache-2.0
// The implementations behind cross_entropy.h, and what they share. Internal.
#pragma once

#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"

namespace megalith::kernels {

/// Valid (not padding) columns among the local ones.
inline int64_t valid_columns(const VocabRange& vocab, int64_t local_columns) {
  return std::clamp<int64_t>(vocab.valid - vocab.begin, 0, local_columns);
}
/// Local column of a global target, or -1 where it is not among the valid local ones.
inline int64_t local_target(const VocabRange& vocab, int64_t local_columns, int32_t target) {
  const int64_t column = target - vocab.begin;
  return column >= 0 && column < valid_columns(vocab, local_columns) ? column : -1;
}

void row_max_vector(Exec& exec, const RowMax& arguments);
void exp_sums_vector(Exec& exec, const ExpSums& arguments);
void row_loss_vector(Exec& exec, const RowLoss& arguments);
void loss_gradient_vector(Exec& exec, const LossGradient& arguments);

void row_max_reference(Exec& exec, const RowMax& arguments);
void exp_sums_reference(Exec& exec, const ExpSums& arguments);
void row_loss_reference(Exec& exec, const RowLoss& arguments);
void loss_gradient_reference(Exec& exec, const LossGradient& arguments);

}  // namespace megalith::kernels
