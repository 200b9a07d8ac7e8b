// SPDX-License-Identifier: Apache-2.0
#include "heads/final_rows.h"

#include "parallel/regions.h"

namespace megalith::layers {

FinalRows final_rows(Context& context, const Batch& batch, const Norm& norm, ConstView x_TH,
                     NormSaved* saved, std::string_view label) {
  FinalRows rows;
  rows.own = context.workspace(context.activation, x_TH.shape());
  norm.forward(context, x_TH, rows.own, saved);
  if (!context.sequence) return rows;
  rows.gathered = context.workspace(context.activation, Shape{batch.num_tokens, x_TH.size(1)});
  parallel::gather_rows_forward(context.exec, context.tensor, rows.own, rows.gathered,
                                sequence_shard(batch), label);
  rows.own = {};
  return rows;
}

}  // namespace megalith::layers
