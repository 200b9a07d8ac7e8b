// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adamw.h"

#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/optimizer/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<AdamW> kList[] = {
    {"simd", [](const Exec&, const AdamW& a) { return refuse_wide({a.w_N}); }, adamw_simd},
    {"reference", [](const Exec&, const AdamW&) { return std::string_view(); }, adamw_reference},
};
constexpr Implementation<ClipFactor> kClip[] = {
    {"reference", [](const Exec&, const ClipFactor&) { return std::string_view(); },
     clip_factor_reference},
};

/// base^exponent by repeated squaring: products only, the same bits everywhere.
double power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    base *= base;
  }
  return result;
}

Lerp lerp_from(double beta) {
  const bool from_old = beta > 0.5;
  return {.factor = from_old ? 1 - beta : -beta, .from_old = from_old};
}

double moved(const Lerp& lerp, double old, double x) {
  return (lerp.from_old ? old : x) + lerp.factor * (x - old);
}

}  // namespace

AdamWFactors adamw_factors(const AdamW& a) {
  return {.decay = 1 - a.lr * a.weight_decay,
          .first = lerp_from(a.beta1),
          .second = lerp_from(a.beta2),
          .step_size = a.lr / (1 - power(a.beta1, a.step)),
          .root_correction = std::sqrt(1 - power(a.beta2, a.step)),
          .eps = a.eps};
}

void adamw(Exec& exec, const AdamW& a) {
  const DType dtype = a.w_N.dtype();
  MEGA_CHECK(dtype == DType::f32 || dtype == DType::f64, "parameters of {}", dtype);
  const int64_t n = a.w_N.num_elements();
  check_vector(a.w_N, dtype, n);
  check_vector(a.m_N, dtype, n);
  check_vector(a.v_N, dtype, n);
  check_vector(a.g_N, dtype, n);
  if (!a.compute_N.absent()) {
    check_vector(a.compute_N, a.compute_N.dtype(), n);
    MEGA_CHECK(is_narrow(a.compute_N.dtype()) || a.compute_N.dtype() == dtype);
  }
  if (!a.gradient_scale.absent()) {
    MEGA_CHECK_EQ(a.gradient_scale.num_elements(), 1);
    MEGA_CHECK(a.gradient_scale.dtype() == DType::f32 || a.gradient_scale.dtype() == dtype);
  }
  if (!a.apply.absent()) check_vector(a.apply, DType::i32, 1);
  if (!a.finite.absent()) check_vector(a.finite, DType::i32, 1);
  MEGA_CHECK(a.step >= 1 && a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1,
             "step {} beta1 {} beta2 {}", a.step, a.beta1, a.beta2);
  const int64_t copy = a.compute_N.absent() ? 0 : a.compute_N.bytes();
  const device::Work work{16 * static_cast<double>(n), 4 * a.w_N.bytes(), 3 * a.w_N.bytes() + copy};
  run_chosen<AdamW>(exec, "adamw", work, kList, a);
}

void adamw_reference(Exec&, const AdamW& arguments) {
  if (!arguments.apply.absent() && *arguments.apply.as<int32_t>() == 0) return;
  const AdamWFactors f = adamw_factors(arguments);
  const View w = as_one_row(arguments.w_N), m = as_one_row(arguments.m_N),
             v = as_one_row(arguments.v_N);
  const ConstView g = as_one_row(arguments.g_N);
  const double scale =
      arguments.gradient_scale.absent() ? 1 : read_double(arguments.gradient_scale, 0, 0);
  bool finite = true;
  for (int64_t i = 0; i < w.size(1); ++i) {
    const double gradient = scale * read_double(g, 0, i);
    const double first = moved(f.first, read_double(m, 0, i), gradient);
    const double second = moved(f.second, read_double(v, 0, i), gradient * gradient);
    const double denominator = std::sqrt(second) / f.root_correction + f.eps;
    write_double(m, 0, i, first);
    write_double(v, 0, i, second);
    write_double(w, 0, i, f.decay * read_double(w, 0, i) - f.step_size * (first / denominator));
    for (const View& x : {w, m, v}) finite = finite && std::isfinite(read_double(x, 0, i));
    if (!arguments.compute_N.absent()) {
      const View compute = as_one_row(arguments.compute_N);
      write_double(compute, 0, i, read_double(w, 0, i));
      finite = finite && std::isfinite(read_double(compute, 0, i));
    }
  }
  if (!arguments.finite.absent()) *arguments.finite.as<int32_t>() = finite ? 1 : 0;
}

void clip_factor(Exec& exec, const ClipFactor& a) {
  check_vector(a.total_sum_of_squares, DType::f64, 1);
  check_vector(a.factor, DType::f32, 1);
  check_vector(a.norm, DType::f64, 1);
  if (!a.scale.absent()) check_vector(a.scale, DType::f32, 1);
  MEGA_CHECK(a.max_norm > 0, "clipping to a norm of {}", a.max_norm);
  run_chosen<ClipFactor>(exec, "clip_factor", {4, 8, 12}, kClip, a);
}

void clip_factor_reference(Exec&, const ClipFactor& a) {
  const double scale = a.scale.absent() ? 1 : static_cast<double>(*a.scale.as<float>());
  const double norm = std::sqrt(*a.total_sum_of_squares.as<double>()) / scale;
  const double factor = a.max_norm / (norm + 1e-6);
  *a.norm.as<double>() = norm;
  // A NaN is kept: !(NaN > 1).
  *a.factor.as<float>() = static_cast<float>((factor > 1 ? 1.0 : factor) / scale);
}

}  // namespace megalith::kernels
