// SPDX-License-Identifier: Apache-2.0
// Where a batch says which of its tokens may weigh anything (Batch::predicted), a head of tokens
// works on their rows alone. What it leaves out would add +0 to every sum.
#pragma once

#include <span>

#include "layers/batch.h"
#include "layers/context.h"

namespace megalith::layers {

class ChosenRows {
 public:
  /// Of h_TE, all of it where the batch names none; may refer to it and to loss_T.
  ChosenRows(Context& context, const Batch& batch, ConstView h_TE, View loss_T);

  bool are_all() const { return predicted_ == nullptr; }
  int64_t count() const { return h_RE.size(0); }
  ConstView h_RE, targets_R, weight_R;
  View loss_R;                    // to be written, then spread
  std::span<const int32_t> runs;  // like cu_seqlens: within one, sums pair rows

  /// loss_T overwritten: +0 for tokens without a row. Nothing where the rows are all.
  void spread_losses(Context& context, View loss_T) const;
  /// y_TE overwritten with the rows of x_RE, and with +0 for other tokens.
  void spread(Context& context, ConstView x_RE, View y_TE) const;

 private:
  const PredictedTokens* predicted_ = nullptr;
  device::Tensor h_memory_, loss_memory_;
};

}  // namespace megalith::layers
