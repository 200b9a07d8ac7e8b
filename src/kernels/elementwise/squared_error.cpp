// SPDX-License-Identifier: Apache-2.0
// A row for each sequence and few numbers in it: plain loops on one thread are as fast as it takes.
#include "kernels/elementwise/squared_error.h"

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {
namespace {

void loss_rows(Exec&, const SquaredError& a) {
  const int64_t outputs = a.y_UO.size(1);
  for (int64_t u = 0; u < a.y_UO.size(0); ++u) {
    const float* y = a.y_UO.row<float>(u);
    const float* target = a.targets_UO.row<float>(u);
    float sum = 0;
    for (int64_t o = 0; o < outputs; ++o) sum += (y[o] - target[o]) * (y[o] - target[o]);
    a.loss_U.as<float>()[u] = sum / static_cast<float>(outputs);
  }
}

void gradient_rows(Exec&, const SquaredErrorGradient& a) {
  const int64_t outputs = a.y_UO.size(1);
  for (int64_t u = 0; u < a.y_UO.size(0); ++u) {
    const float weight = a.weight_U.as<float>()[u];
    const float factor = 2 / static_cast<float>(outputs) * (weight * a.scale);
    for (int64_t o = 0; o < outputs; ++o) {
      const float error = a.y_UO.row<float>(u)[o] - a.targets_UO.row<float>(u)[o];
      a.dy_UO.row<float>(u)[o] = weight == 0 ? 0 : factor * error;
    }
  }
}

void loss_reference(Exec&, const SquaredError& a) {
  const int64_t outputs = a.y_UO.size(1);
  for (int64_t u = 0; u < a.y_UO.size(0); ++u) {
    double sum = 0;
    for (int64_t o = 0; o < outputs; ++o) {
      const double error = read_double(a.y_UO, u, o) - read_double(a.targets_UO, u, o);
      sum += error * error;
    }
    write_double(a.loss_U, 0, u, sum / static_cast<double>(outputs));
  }
}

void gradient_reference(Exec&, const SquaredErrorGradient& a) {
  const int64_t outputs = a.y_UO.size(1);
  for (int64_t u = 0; u < a.y_UO.size(0); ++u) {
    const double weight = read_double(a.weight_U, 0, u);
    const double factor = 2 / static_cast<double>(outputs) * weight * static_cast<double>(a.scale);
    for (int64_t o = 0; o < outputs; ++o) {
      const double error = read_double(a.y_UO, u, o) - read_double(a.targets_UO, u, o);
      write_double(a.dy_UO, u, o, weight == 0 ? 0 : factor * error);
    }
  }
}

template <typename Arguments>
std::string_view takes_f32(const Exec&, const Arguments& a) {
  return a.y_UO.dtype() == DType::f32 ? "" : "takes f32 only";
}
template <typename Arguments>
std::string_view takes_all(const Exec&, const Arguments&) {
  return {};
}

constexpr Implementation<SquaredError> kLoss[] = {
    {"rows", takes_f32<SquaredError>, loss_rows},
    {"reference", takes_all<SquaredError>, loss_reference}};
constexpr Implementation<SquaredErrorGradient> kGradient[] = {
    {"rows", takes_f32<SquaredErrorGradient>, gradient_rows},
    {"reference", takes_all<SquaredErrorGradient>, gradient_reference}};

void check_rows(const ConstView& y_UO, const ConstView& targets_UO) {
  MEGA_CHECK_EQ(y_UO.shape().num_dims(), 2);
  MEGA_CHECK(y_UO.dtype() == DType::f32 || y_UO.dtype() == DType::f64, "{}", y_UO.dtype());
  MEGA_CHECK_EQ(targets_UO.dtype(), DType::f32);
  check_same_shape(targets_UO, y_UO);
}

double elements(const ConstView& x) { return static_cast<double>(x.num_elements()); }

}  // namespace

void squared_error(Exec& exec, const SquaredError& a) {
  check_rows(a.y_UO, a.targets_UO);
  check_vector(a.loss_U, a.y_UO.dtype(), a.y_UO.size(0));
  const device::Work work{3 * elements(a.y_UO), a.y_UO.bytes() + a.targets_UO.bytes(),
                          a.loss_U.bytes()};
  run_chosen<SquaredError>(exec, "squared_error", work, kLoss, a);
}

void squared_error_gradient(Exec& exec, const SquaredErrorGradient& a) {
  check_rows(a.y_UO, a.targets_UO);
  check_same_shape(a.dy_UO, a.y_UO);
  MEGA_CHECK_EQ(a.dy_UO.dtype(), a.y_UO.dtype());
  check_vector(a.weight_U, DType::f32, a.y_UO.size(0));
  const device::Work work{2 * elements(a.y_UO),
                          a.y_UO.bytes() + a.targets_UO.bytes() + a.weight_U.bytes(),
                          a.dy_UO.bytes()};
  run_chosen<SquaredErrorGradient>(exec, "squared_error_gradient", work, kGradient, a);
}

}  // namespace megalith::kernels
