// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/head_norm.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/head_checks.h"
#include "kernels/norm/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<HeadNormForward> kForward[] = {
    {"simd",
     [](const Exec&, const HeadNormForward& a) -> std::string_view {
       const bool wide = any_wide({a.x_TND.dtype, a.gamma_D.dtype(), a.y_TND.dtype});
       return wide ? "takes f32, bf16 and f16 only" : "";
     },
     head_norm_forward_simd},
    {"reference", [](const Exec&, const HeadNormForward&) { return std::string_view(); },
     head_norm_forward_reference},
};
constexpr Implementation<HeadNormBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const HeadNormBackward& a) -> std::string_view {
       const bool wide =
           any_wide({a.dy_TND.dtype, a.x_TND.dtype, a.gamma_D.dtype(), a.dx_TND.dtype});
       return wide ? "takes f32, bf16 and f16 only" : "";
     },
     head_norm_backward_simd},
    {"reference", [](const Exec&, const HeadNormBackward&) { return std::string_view(); },
     head_norm_backward_reference},
};

void check_statistics(const ConstView& view, const ConstHeadsView& x) {
  MEGA_CHECK_EQ(view.dtype(), x.dtype == DType::f64 ? DType::f64 : DType::f32);
  MEGA_CHECK(view.shape() == Shape({x.num_rows, x.num_heads}) && view.is_contiguous(),
             "statistics are {} for {} heads of {} rows", view.shape(), x.num_heads, x.num_rows);
}

}  // namespace

void head_norm_forward(Exec& exec, const HeadNormForward& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  MEGA_CHECK(a.eps >= 0);
  check_same_heads(a.x_TND, a.y_TND);
  check_same_places(a.x_TND, a.y_TND);
  check_storage({first_head(a.x_TND), first_head(a.y_TND), a.gamma_D});
  check_vector(a.gamma_D, a.gamma_D.dtype(), a.x_TND.head_size);
  if (!a.mean_TN.absent()) check_statistics(a.mean_TN, a.x_TND);
  if (!a.rstd_TN.absent()) check_statistics(a.rstd_TN, a.x_TND);
  MEGA_CHECK(a.kind == NormKind::layer || a.mean_TN.absent(), "root-mean-square norm has no mean");
  const device::Work work{8 * static_cast<double>(elements(a.x_TND)),
                          bytes(a.x_TND) + bytes(a.gamma_D),
                          bytes(a.y_TND) + bytes(a.mean_TN) + bytes(a.rstd_TN)};
  run_chosen<HeadNormForward>(exec, "head_norm_forward", work, kForward, a);
}

void head_norm_backward(Exec& exec, const HeadNormBackward& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  check_same_heads(a.x_TND, a.dy_TND);
  check_same_heads(a.x_TND, a.dx_TND);
  check_same_places(a.dy_TND, a.dx_TND);
  check_storage({first_head(a.x_TND), first_head(a.dy_TND), first_head(a.dx_TND), a.gamma_D});
  check_vector(a.gamma_D, a.gamma_D.dtype(), a.x_TND.head_size);
  check_statistics(a.rstd_TN, a.x_TND);
  if (a.kind == NormKind::layer) check_statistics(a.mean_TN, a.x_TND);
  MEGA_CHECK(a.dx_TND.data != a.x_TND.data || elements(a.x_TND) == 0, "dx must not alias x");
  if (!a.dgamma_PD.absent()) {
    MEGA_CHECK_EQ(a.dgamma_PD.dtype(), a.rstd_TN.dtype());
    MEGA_CHECK(a.dgamma_PD.shape().num_dims() == 2 && a.dgamma_PD.size(0) >= 1 &&
                   a.dgamma_PD.size(1) == a.x_TND.head_size &&
                   a.x_TND.num_heads % a.dgamma_PD.size(0) == 0,
               "{} for {} heads of {}", a.dgamma_PD.shape(), a.x_TND.num_heads, a.x_TND.head_size);
  }
  const device::Work work{13 * static_cast<double>(elements(a.x_TND)),
                          bytes(a.dy_TND) + bytes(a.x_TND) + bytes(a.gamma_D) + bytes(a.mean_TN) +
                              bytes(a.rstd_TN) + bytes(a.dgamma_PD),
                          bytes(a.dx_TND) + bytes(a.dgamma_PD)};
  run_chosen<HeadNormBackward>(exec, "head_norm_backward", work, kBackward, a);
}

}  // namespace megalith::kernels
