// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/activate.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

// Elementary operations per element, counted in math/elementary_functions-inl.h, roughly.
constexpr double kFlopsForward = 30, kFlopsBackward = 40;

constexpr Implementation<ActivationForward> kForward[] = {
    {"simd",
     [](const Exec&, const ActivationForward& a) {
       return refuse_wide({a.x, a.y});
     },
     activation_forward_simd},
    {"reference", [](const Exec&, const ActivationForward&) { return std::string_view(); },
     activation_forward_reference},
};
constexpr Implementation<ActivationBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const ActivationBackward& a) {
       return refuse_wide({a.dy, a.u, a.dx});
     },
     activation_backward_simd},
    {"reference", [](const Exec&, const ActivationBackward&) { return std::string_view(); },
     activation_backward_reference},
};

}  // namespace

void activation_forward(Exec& exec, ConstView x, View y, Activation kind) {
  check_same_shape(x, y);
  check_storage({x, y});
  const device::Work work{kFlopsForward * static_cast<double>(y.num_elements()), x.bytes(),
                          y.bytes()};
  run_chosen<ActivationForward>(exec, "activation_forward", work, kForward, {x, y, kind});
}

void activation_backward(Exec& exec, ConstView dy, ConstView u, View dx, Activation kind) {
  check_same_shape(dy, dx);
  check_same_shape(u, dx);
  check_storage({dy, u, dx});
  const device::Work work{kFlopsBackward * static_cast<double>(dx.num_elements()),
                          dy.bytes() + u.bytes(), dx.bytes()};
  run_chosen<ActivationBackward>(exec, "activation_backward", work, kBackward, {dy, u, dx, kind});
}

}  // namespace megalith::kernels
