// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/sinusoidal.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/embedding/sinusoidal_implementations.h"

namespace megalith::kernels {
namespace {

// Per pair of columns: the angle's (kernels/rotary/rotary.cpp) and two multiply-adds.
constexpr double kFlopsOfPair = 44;

constexpr Implementation<SinusoidalForward> kForward[] = {
    {"simd",
     [](const Exec&, const SinusoidalForward& a) {
       return refuse_wide({a.scale, a.y_TH});
     },
     sinusoidal_forward_simd},
    {"reference", [](const Exec&, const SinusoidalForward&) { return std::string_view(); },
     sinusoidal_forward_reference},
};
constexpr Implementation<SinusoidalBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const SinusoidalBackward& a) {
       return refuse_wide({a.dy_TH, a.dscale_T});
     },
     sinusoidal_backward_simd},
    {"reference", [](const Exec&, const SinusoidalBackward&) { return std::string_view(); },
     sinusoidal_backward_reference},
};

void check_angles(const ConstView& position_T, const ConstView& inverse_P, const ConstView& x_TH) {
  MEGA_CHECK_EQ(x_TH.shape().num_dims(), 2);
  check_vector(position_T, DType::i32, x_TH.size(0));
  MEGA_CHECK(x_TH.size(1) % 2 == 0, "sines and cosines in {} columns", x_TH.size(1));
  check_vector(inverse_P, DType::f32, x_TH.size(1) / 2);
}

}  // namespace

void sinusoidal_forward(Exec& exec, const SinusoidalForward& a) {
  check_angles(a.position_T, a.inverse_P, a.y_TH);
  check_storage({a.scale, a.y_TH});
  MEGA_CHECK_EQ(a.scale.num_elements(), 1);
  const device::Work work{kFlopsOfPair / 2 * static_cast<double>(a.y_TH.num_elements()),
                          a.y_TH.bytes() + a.position_T.bytes() + a.inverse_P.bytes(),
                          a.y_TH.bytes()};
  run_chosen<SinusoidalForward>(exec, "sinusoidal_forward", work, kForward, a);
}

void sinusoidal_backward(Exec& exec, const SinusoidalBackward& a) {
  check_angles(a.position_T, a.inverse_P, a.dy_TH);
  check_storage({a.dy_TH, a.dscale_T});
  MEGA_CHECK(!is_half(a.dscale_T.dtype()) && a.dscale_T.num_elements() == a.dy_TH.size(0),
             "sums are {} {}", a.dscale_T.dtype(), a.dscale_T.shape());
  const device::Work work{kFlopsOfPair / 2 * static_cast<double>(a.dy_TH.num_elements()),
                          a.dy_TH.bytes() + a.position_T.bytes() + a.inverse_P.bytes(),
                          a.dscale_T.bytes()};
  run_chosen<SinusoidalBackward>(exec, "sinusoidal_backward", work, kBackward, a);
}

}  // namespace megalith::kernels
