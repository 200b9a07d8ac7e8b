// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/layer_norm.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<LayerNormForward> kForward[] = {
    {"simd",
     [](const Exec&, const LayerNormForward& a) {
       return refuse_wide({a.x_TH, a.gamma_H, a.beta_H, a.y_TH});
     },
     layer_norm_forward_simd},
    {"reference", [](const Exec&, const LayerNormForward&) { return std::string_view(); },
     layer_norm_forward_reference},
};
constexpr Implementation<LayerNormBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const LayerNormBackward& a) {
       return refuse_wide({a.dy_TH, a.x_TH, a.gamma_H, a.dx_TH, a.residual_gradient_TH});
     },
     layer_norm_backward_simd},
    {"reference", [](const Exec&, const LayerNormBackward&) { return std::string_view(); },
     layer_norm_backward_reference},
};

/// Statistics and parameter gradients are f32 beside narrow storage, f64 beside f64.
DType wide_type(const ConstView& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

int64_t bytes(const ConstView& view) { return view.absent() ? 0 : view.bytes(); }

void check_parameter_gradient(const View& gradient, const LayerNormBackward& a) {
  if (gradient.absent()) return;
  MEGA_CHECK_EQ(gradient.dtype(), wide_type(a.x_TH));
  MEGA_CHECK(gradient.shape() == Shape({a.shards.count, a.x_TH.size(1)}),
             "{} for {} partials of {}", gradient.shape(), a.shards.count, a.x_TH.size(1));
}

}  // namespace

void layer_norm_forward(Exec& exec, const LayerNormForward& a) {
  MEGA_CHECK_EQ(a.x_TH.shape().num_dims(), 2);
  check_same_shape(a.x_TH, a.y_TH);
  check_storage({a.x_TH, a.y_TH, a.gamma_H, a.beta_H});
  const int64_t rows = a.x_TH.size(0), columns = a.x_TH.size(1);
  MEGA_CHECK_GE(columns, 1);
  MEGA_CHECK(a.eps >= 0);
  check_vector(a.gamma_H, a.gamma_H.dtype(), columns);
  if (!a.beta_H.absent()) check_vector(a.beta_H, a.beta_H.dtype(), columns);
  if (!a.mean_T.absent()) check_vector(a.mean_T, wide_type(a.x_TH), rows);
  if (!a.rstd_T.absent()) check_vector(a.rstd_T, wide_type(a.x_TH), rows);
  MEGA_CHECK(a.kind == NormKind::layer || (a.beta_H.absent() && a.mean_T.absent()),
             "root-mean-square norm has neither mean nor beta");
  const device::Work work{8 * static_cast<double>(rows * columns),
                          a.x_TH.bytes() + bytes(a.gamma_H) + bytes(a.beta_H),
                          a.y_TH.bytes() + bytes(a.mean_T) + bytes(a.rstd_T)};
  run_chosen<LayerNormForward>(exec, "layer_norm_forward", work, kForward, a);
}

void layer_norm_backward(Exec& exec, const LayerNormBackward& a) {
  MEGA_CHECK_EQ(a.x_TH.shape().num_dims(), 2);
  check_same_shape(a.x_TH, a.dy_TH);
  check_same_shape(a.x_TH, a.dx_TH);
  check_storage({a.x_TH, a.dy_TH, a.dx_TH, a.gamma_H, a.residual_gradient_TH});
  const int64_t rows = a.x_TH.size(0), columns = a.x_TH.size(1);
  MEGA_CHECK_GE(columns, 1);
  check_vector(a.gamma_H, a.gamma_H.dtype(), columns);
  check_vector(a.rstd_T, wide_type(a.x_TH), rows);
  if (a.kind == NormKind::layer) check_vector(a.mean_T, wide_type(a.x_TH), rows);
  if (!a.residual_gradient_TH.absent()) check_same_shape(a.x_TH, a.residual_gradient_TH);
  MEGA_CHECK(a.dx_TH.data() != a.x_TH.data() || rows == 0, "dx must not alias x");
  a.shards.check();
  check_parameter_gradient(a.dgamma_PH, a);
  check_parameter_gradient(a.dbeta_PH, a);
  const device::Work work{15 * static_cast<double>(rows * columns),
                          a.x_TH.bytes() + a.dy_TH.bytes() + bytes(a.residual_gradient_TH) +
                              bytes(a.gamma_H) + bytes(a.mean_T) + bytes(a.rstd_T) +
                              bytes(a.dgamma_PH) + bytes(a.dbeta_PH),
                          a.dx_TH.bytes() + bytes(a.dgamma_PH) + bytes(a.dbeta_PH)};
  run_chosen<LayerNormBackward>(exec, "layer_norm_backward", work, kBackward, a);
}

}  // namespace megalith::kernels
