// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/gelu.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

// Elementary operations per element, counted in base/elementary_functions-inl.h, roughly.
constexpr double kFlopsForward = 30, kFlopsBackward = 40;

constexpr Implementation<GeluForward> kForward[] = {
    {"simd",
     [](const Exec&, const GeluForward& a) {
       return refuse_wide({a.x, a.y});
     },
     gelu_forward_simd},
    {"reference", [](const Exec&, const GeluForward&) { return std::string_view(); },
     gelu_forward_reference},
};
constexpr Implementation<GeluBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const GeluBackward& a) {
       return refuse_wide({a.dy, a.u, a.dx});
     },
     gelu_backward_simd},
    {"reference", [](const Exec&, const GeluBackward&) { return std::string_view(); },
     gelu_backward_reference},
};

}  // namespace

void gelu_forward(Exec& exec, ConstView x, View y, Activation kind) {
  check_same_shape(x, y);
  check_storage({x, y});
  const device::Work work{kFlopsForward * static_cast<double>(y.num_elements()), x.bytes(),
                          y.bytes()};
  run_chosen<GeluForward>(exec, "gelu_forward", work, kForward, {x, y, kind});
}

void gelu_backward(Exec& exec, ConstView dy, ConstView u, View dx, Activation kind) {
  check_same_shape(dy, dx);
  check_same_shape(u, dx);
  check_storage({dy, u, dx});
  const device::Work work{kFlopsBackward * static_cast<double>(dx.num_elements()),
                          dy.bytes() + u.bytes(), dx.bytes()};
  run_chosen<GeluBackward>(exec, "gelu_backward", work, kBackward, {dy, u, dx, kind});
}

}  // namespace megalith::kernels
