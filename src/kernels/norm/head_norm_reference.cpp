// SPDX-License-Identifier: Apache-2.0
// The specification: each head is a row of layer_norm's reference; what the chains of dgamma add is
// spelled out.
#include "kernels/elementary/reference_access.h"
#include "kernels/norm/implementations.h"

namespace megalith::kernels {
namespace {

/// Head h of row t as a matrix of one row.
template <typename Byte>
BasicView<Byte> head(const BasicHeadsView<Byte>& x, int64_t t, int64_t h) {
  return {x.at(t, h), x.dtype, Shape{1, x.head_size}, x.head_size};
}
/// Its entry of a table [T, N].
template <typename Byte>
BasicView<Byte> entry(const BasicView<Byte>& table_TN, int64_t t, int64_t h) {
  if (table_TN.absent()) return {};
  return {table_TN.data() + (t * table_TN.row_stride() + h) * bytes_of(table_TN.dtype()),
          table_TN.dtype(), Shape{1}};
}

}  // namespace

void head_norm_forward_reference(Exec& exec, const HeadNormForward& a) {
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      layer_norm_forward_reference(exec, {.x_TH = head(a.x_TND, t, h),
                                          .gamma_H = a.gamma_D,
                                          .y_TH = head(a.y_TND, t, h),
                                          .mean_T = entry(a.mean_TN, t, h),
                                          .rstd_T = entry(a.rstd_TN, t, h),
                                          .eps = a.eps,
                                          .kind = a.kind,
                                          .gamma_offset = a.gamma_offset});
    }
  }
}

void head_norm_backward_reference(Exec& exec, const HeadNormBackward& a) {
  const int64_t partials = a.dgamma_PD.absent() ? 1 : a.dgamma_PD.size(0);
  for (int64_t t = 0; t < a.x_TND.num_rows; ++t) {
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      const int64_t partial = h * partials / a.x_TND.num_heads;
      layer_norm_backward_reference(
          exec, {.dy_TH = head(a.dy_TND, t, h),
                 .x_TH = head(a.x_TND, t, h),
                 .gamma_H = a.gamma_D,
                 .mean_T = entry(a.mean_TN, t, h),
                 .rstd_T = entry(a.rstd_TN, t, h),
                 .dx_TH = head(a.dx_TND, t, h),
                 .dgamma_PH = a.dgamma_PD.absent() ? View() : a.dgamma_PD.rows(partial, 1),
                 .kind = a.kind,
                 .gamma_offset = a.gamma_offset});
    }
  }
}

}  // namespace megalith::kernels
