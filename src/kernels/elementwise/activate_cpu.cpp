// SPDX-License-Identifier: Apache-2.0
// Activations for f32, bf16 and f16: the polynomials of math/elementary.h, one vector at a time.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/activate_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementwise/activation-inl.h"
#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

void forward_piece(Activation kind, const ConstView& x, const View& y, int64_t row, int64_t begin,
                   int64_t end) {
  with_activation(kind, [&](auto one) {
    constexpr Activation kOne = decltype(one)::value;
    map_piece([](FloatVec u) { return activation_value<kOne>(u); }, x, y, row, begin, end);
  });
}
void backward_piece(Activation kind, const ConstView& dy, const ConstView& u, const View& dx,
                    int64_t row, int64_t begin, int64_t end) {
  with_activation(kind, [&](auto one) {
    constexpr Activation kOne = decltype(one)::value;
    map_piece([](FloatVec g, FloatVec v) { return hn::Mul(g, activation_grad<kOne>(v)); }, dy, u,
              dx, row, begin, end);
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void activation_forward_simd(Exec& exec, const ActivationForward& arguments) {
  const bool flat = arguments.x.is_contiguous() && arguments.y.is_contiguous();
  const ConstView x = flat ? as_one_row(arguments.x) : as_matrix(arguments.x);
  const View y = flat ? as_one_row(arguments.y) : as_matrix(arguments.y);
  for_pieces(exec, y.size(0), y.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, forward_piece, arguments.kind, x, y, row, begin, end);
  });
}

void activation_backward_simd(Exec& exec, const ActivationBackward& arguments) {
  const bool flat =
      arguments.dy.is_contiguous() && arguments.u.is_contiguous() && arguments.dx.is_contiguous();
  const ConstView dy = flat ? as_one_row(arguments.dy) : as_matrix(arguments.dy);
  const ConstView u = flat ? as_one_row(arguments.u) : as_matrix(arguments.u);
  const View dx = flat ? as_one_row(arguments.dx) : as_matrix(arguments.dx);
  for_pieces(exec, dx.size(0), dx.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, backward_piece, arguments.kind, dy, u, dx, row, begin, end);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
