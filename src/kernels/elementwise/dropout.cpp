// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/dropout.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<ResidualDropoutForward> kList[] = {
    {"simd",
     [](const Exec&, const ResidualDropoutForward& a) {
       return refuse_wide({a.x_TH, a.residual_TH, a.y_TH});
     },
     residual_dropout_simd},
    {"reference", [](const Exec&, const ResidualDropoutForward&) { return std::string_view(); },
     residual_dropout_reference},
};

void check(const Dropout& dropout, const ConstView& x) {
  MEGA_CHECK(dropout.p >= 0 && dropout.p < 1, "dropout of {}", dropout.p);
  if (dropout.p == 0) return;
  const ConstView matrix = as_matrix(x);
  MEGA_CHECK_GE(x.shape().num_dims(), 2);
  check_vector(dropout.sample_T, DType::i64, matrix.size(0));
  check_vector(dropout.position_T, DType::i32, matrix.size(0));
  MEGA_CHECK(
      dropout.channel_begin >= 0 && dropout.channel_begin + matrix.size(1) <= int64_t{1} << 34,
      "columns {} + {}", dropout.channel_begin, matrix.size(1));
}

void run(Exec& exec, std::string_view name, const ResidualDropoutForward& arguments) {
  check_same_shape(arguments.x_TH, arguments.y_TH);
  check_storage({arguments.x_TH, arguments.residual_TH, arguments.y_TH});
  check(arguments.dropout, arguments.x_TH);
  const int64_t residual_bytes = arguments.residual_TH.absent() ? 0 : arguments.residual_TH.bytes();
  const device::Work work{2 * static_cast<double>(arguments.y_TH.num_elements()),
                          arguments.x_TH.bytes() + residual_bytes, arguments.y_TH.bytes()};
  run_chosen<ResidualDropoutForward>(exec, name, work, kList, arguments);
}

}  // namespace

void dropout_forward(Exec& exec, const DropoutForward& arguments) {
  run(exec, "dropout_forward", {arguments.x_TH, {}, arguments.y_TH, arguments.dropout});
}
void dropout_backward(Exec& exec, const DropoutBackward& arguments) {
  run(exec, "dropout_backward", {arguments.dy_TH, {}, arguments.dx_TH, arguments.dropout});
}
void residual_dropout_forward(Exec& exec, const ResidualDropoutForward& arguments) {
  check_same_shape(arguments.residual_TH, arguments.y_TH);
  MEGA_CHECK(!arguments.residual_TH.absent() || arguments.y_TH.num_elements() == 0);
  run(exec, "residual_dropout_forward", arguments);
}
void residual_dropout_backward(Exec& exec, const ResidualDropoutBackward& arguments) {
  run(exec, "residual_dropout_backward", {arguments.dy_TH, {}, arguments.dx_TH, arguments.dropout});
}

}  // namespace megalith::kernels
