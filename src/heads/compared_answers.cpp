// SPDX-License-Identifier: Apache-2.0
#include "heads/compared_answers.h"

#include "kernels/cross_entropy/preference_loss.h"
#include "kernels/embedding/embedding.h"

namespace megalith::layers {

static_assert(std::size(kToldOfPairs) + 1 == kernels::kPreferenceValues);

void compare_answers(const Head& tokens, Context& context, const Batch& batch, ConstView x_TH,
                     View values_U, View dx_TH) {
  const ComparedAnswers& compared = batch.compared;
  const int64_t pairs = batch.loss_weight_T.size(0);
  const DType dtype = values_U.dtype();
  Batch of_tokens = batch;
  of_tokens.compared = {};
  const device::Tensor nll_T = context.workspace(dtype, Shape{batch.num_tokens});
  tokens.forward(context, of_tokens, x_TH, nll_T);
  device::Tensor weight_T, weight_R;
  if (!dx_TH.absent()) weight_T = context.workspace(dtype, Shape{batch.num_tokens});
  kernels::preference_loss(context.exec,
                           {.nll_T = nll_T,
                            .targets_T = batch.targets_T,
                            .rows_P3 = compared.rows_P3,
                            .reference_P2 = compared.reference_P2,
                            .weight_P = batch.loss_weight_T,
                            .beta = compared.beta,
                            .label_smoothing = compared.label_smoothing,
                            .values_VP = values_U.reshape(Shape{kernels::kPreferenceValues, pairs}),
                            .weight_T = weight_T});
  if (dx_TH.absent()) return;
  of_tokens.loss_weight_T = weight_T;
  if (const ConstView row_R = batch.predicted.row_R; !row_R.absent()) {
    const int64_t rows = row_R.size(0);
    weight_R = context.workspace(dtype, Shape{rows});
    kernels::embedding_lookup(context.exec,
                              {.ids_T = row_R,
                               .table_VH = ConstView(weight_T).reshape(Shape{batch.num_tokens, 1}),
                               .y_TH = weight_R.view.reshape(Shape{rows, 1})});
    of_tokens.predicted.weight_R = weight_R;
  }
  tokens.forward_backward(context, of_tokens, x_TH, 0, nll_T, dx_TH);
}

}  // namespace megalith::layers
