// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/whole_norm.h"

#include <array>

#include "kernels/elementary/run_chosen.h"
#include "kernels/norm/head_checks.h"
#include "kernels/norm/implementations.h"

namespace megalith::kernels {
namespace {

template <class Arguments>
std::string_view takes_all(const Exec&, const Arguments&) {
  return {};
}
template <class Arguments>
std::string_view refuse_wide_heads(const Exec&, const Arguments& a) {
  bool wide = !is_narrow(a.x_TND.dtype);
  if constexpr (requires { a.gamma_ND; }) wide = wide || !is_narrow(a.gamma_ND.dtype());
  if constexpr (requires { a.y_TND; }) wide = wide || !is_narrow(a.y_TND.dtype);
  if constexpr (requires { a.dy_TND; }) wide = wide || !is_narrow(a.dy_TND.dtype);
  return wide ? "takes f32, bf16 and f16 only" : "";
}
template <class Arguments>
using Entries = std::array<Implementation<Arguments>, 2>;
template <class Arguments>
constexpr Entries<Arguments> entries(void (*simd)(Exec&, const Arguments&),
                                     void (*reference)(Exec&, const Arguments&)) {
  return {{{"simd", refuse_wide_heads<Arguments>, simd},
           {"reference", takes_all<Arguments>, reference}}};
}
constexpr auto kSums = entries(whole_norm_sums_simd, whole_norm_sums_reference);
constexpr auto kForward = entries(whole_norm_forward_simd, whole_norm_forward_reference);
constexpr auto kGradientSums =
    entries(whole_norm_gradient_sums_simd, whole_norm_gradient_sums_reference);
constexpr auto kBackward = entries(whole_norm_backward_simd, whole_norm_backward_reference);
constexpr auto kWeightGradient =
    entries(whole_norm_weight_gradient_simd, whole_norm_weight_gradient_reference);

DType type_of_sums(const ConstHeadsView& x) {
  return x.dtype == DType::f64 ? DType::f64 : DType::f32;
}
void check_parts(const ConstView& sums_PT, const ConstHeadsView& x) {
  MEGA_CHECK_EQ(sums_PT.dtype(), type_of_sums(x));
  MEGA_CHECK(sums_PT.shape().num_dims() == 2 && sums_PT.size(0) >= 1 &&
                 x.num_heads % sums_PT.size(0) == 0 && sums_PT.size(1) == x.num_rows,
             "sums are {} for {} heads of {} rows", sums_PT.shape(), x.num_heads, x.num_rows);
}
void check_totals(const RowTotals& totals, const ConstHeadsView& x) {
  MEGA_CHECK(totals.eps >= 0);
  MEGA_CHECK_GE(totals.width, x.num_heads * x.head_size);
  check_vector(totals.squares_T, type_of_sums(x), x.num_rows);
  if (!totals.sum_T.absent()) check_vector(totals.sum_T, type_of_sums(x), x.num_rows);
}
void check_weight(const ConstView& weight_ND, const ConstHeadsView& x) {
  MEGA_CHECK(weight_ND.shape() == Shape({x.num_heads, x.head_size}) && weight_ND.is_contiguous(),
             "weight {} for {} heads of {}", weight_ND.shape(), x.num_heads, x.head_size);
}
int64_t bytes_read(const RowTotals& totals) {
  return bytes(totals.sum_T) + bytes(totals.squares_T);
}
double operations(double of_an_element, const ConstHeadsView& x) {
  return of_an_element * static_cast<double>(elements(x));
}

}  // namespace

void whole_norm_sums(Exec& exec, const WholeNormSums& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  check_storage({first_head(a.x_TND)});
  check_parts(a.sums_PT, a.x_TND);
  MEGA_CHECK(a.squares || a.sum_T.absent(), "totals are for squares");
  if (!a.sum_T.absent()) {
    check_vector(a.sum_T, type_of_sums(a.x_TND), a.x_TND.num_rows);
    MEGA_CHECK_GE(a.width, a.x_TND.num_heads * a.x_TND.head_size);
  }
  const device::Work work{operations(a.squares ? 3 : 1, a.x_TND), bytes(a.x_TND) + bytes(a.sum_T),
                          bytes(a.sums_PT)};
  run_chosen<WholeNormSums>(exec, "whole_norm_sums", work, kSums, a);
}

void whole_norm_forward(Exec& exec, const WholeNormForward& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  check_same_heads(a.x_TND, a.y_TND);
  check_same_places(a.x_TND, a.y_TND);
  check_storage({first_head(a.x_TND), first_head(a.y_TND), a.gamma_ND});
  check_weight(a.gamma_ND, a.x_TND);
  check_totals(a.totals, a.x_TND);
  const device::Work work{operations(4, a.x_TND),
                          bytes(a.x_TND) + bytes(a.gamma_ND) + bytes_read(a.totals),
                          bytes(a.y_TND)};
  run_chosen<WholeNormForward>(exec, "whole_norm_forward", work, kForward, a);
}

void whole_norm_gradient_sums(Exec& exec, const WholeNormGradientSums& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  check_same_heads(a.x_TND, a.dy_TND);
  check_storage({first_head(a.x_TND), first_head(a.dy_TND), a.gamma_ND});
  check_weight(a.gamma_ND, a.x_TND);
  check_totals(a.totals, a.x_TND);
  check_parts(a.products_PT, a.x_TND);
  MEGA_CHECK_EQ(a.sums_PT.absent(), a.totals.sum_T.absent());
  if (!a.sums_PT.absent()) {
    check_parts(a.sums_PT, a.x_TND);
    MEGA_CHECK_EQ(a.sums_PT.size(0), a.products_PT.size(0));
  }
  const device::Work work{
      operations(7, a.x_TND),
      bytes(a.dy_TND) + bytes(a.x_TND) + bytes(a.gamma_ND) + bytes_read(a.totals),
      bytes(a.sums_PT) + bytes(a.products_PT)};
  run_chosen<WholeNormGradientSums>(exec, "whole_norm_gradient_sums", work, kGradientSums, a);
}

void whole_norm_backward(Exec& exec, const WholeNormBackward& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  check_same_heads(a.x_TND, a.dy_TND);
  check_same_heads(a.x_TND, a.dx_TND);
  check_same_places(a.dy_TND, a.dx_TND);
  check_storage({first_head(a.x_TND), first_head(a.dy_TND), first_head(a.dx_TND), a.gamma_ND});
  check_weight(a.gamma_ND, a.x_TND);
  check_totals(a.totals, a.x_TND);
  check_vector(a.product_T, type_of_sums(a.x_TND), a.x_TND.num_rows);
  MEGA_CHECK_EQ(a.sum_g_T.absent(), a.totals.sum_T.absent());
  if (!a.sum_g_T.absent()) check_vector(a.sum_g_T, type_of_sums(a.x_TND), a.x_TND.num_rows);
  MEGA_CHECK(a.dx_TND.data != a.x_TND.data || elements(a.x_TND) == 0, "dx must not alias x");
  const device::Work work{operations(8, a.x_TND),
                          bytes(a.dy_TND) + bytes(a.x_TND) + bytes(a.gamma_ND) +
                              bytes_read(a.totals) + bytes(a.sum_g_T) + bytes(a.product_T),
                          bytes(a.dx_TND)};
  run_chosen<WholeNormBackward>(exec, "whole_norm_backward", work, kBackward, a);
}

void whole_norm_weight_gradient(Exec& exec, const WholeNormWeightGradient& a) {
  MEGA_CHECK_GE(a.x_TND.head_size, 1);
  check_same_heads(a.x_TND, a.dy_TND);
  check_storage({first_head(a.x_TND), first_head(a.dy_TND)});
  check_weight(a.dgamma_ND, a.x_TND);
  MEGA_CHECK_EQ(a.dgamma_ND.dtype(), type_of_sums(a.x_TND));
  check_totals(a.totals, a.x_TND);
  const device::Work work{
      operations(4, a.x_TND),
      bytes(a.dy_TND) + bytes(a.x_TND) + bytes_read(a.totals) + bytes(a.dgamma_ND),
      bytes(a.dgamma_ND)};
  run_chosen<WholeNormWeightGradient>(exec, "whole_norm_weight_gradient", work, kWeightGradient, a);
}

}  // namespace megalith::kernels
