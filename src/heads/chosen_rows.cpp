// SPDX-License-Identifier: Apache-2.0
// Rows are taken and put back by the lookup of embeddings: of a place that is none it makes +0.
#include "heads/chosen_rows.h"

#include "kernels/embedding/embedding.h"

namespace megalith::layers {

ChosenRows::ChosenRows(Context& context, const Batch& batch, ConstView h_TE, View loss_T)
    : h_RE(h_TE),
      targets_R(batch.targets_T),
      weight_R(batch.loss_weight_T),
      loss_R(loss_T),
      runs(batch.cu_seqlens) {
  if (batch.predicted.row_R.absent()) return;
  predicted_ = &batch.predicted;
  const int64_t rows = predicted_->row_R.size(0);
  h_memory_ = context.workspace(h_TE.dtype(), Shape{rows, h_TE.size(1)});
  loss_memory_ = context.workspace(loss_T.dtype(), Shape{rows});
  kernels::embedding_lookup(context.exec,
                            {.ids_T = predicted_->row_R, .table_VH = h_TE, .y_TH = h_memory_});
  h_RE = h_memory_;
  targets_R = predicted_->targets_R;
  weight_R = predicted_->weight_R;
  loss_R = loss_memory_;
  runs = predicted_->runs;
}

void ChosenRows::spread_losses(Context& context, View loss_T) const {
  if (are_all()) return;
  spread(context, loss_R.reshape(Shape{count(), 1}), loss_T.reshape(Shape{loss_T.size(0), 1}));
}

void ChosenRows::spread(Context& context, ConstView x_RE, View y_TE) const {
  kernels::embedding_lookup(context.exec,
                            {.ids_T = predicted_->place_T, .table_VH = x_RE, .y_TH = y_TE});
}

}  // namespace megalith::layers
