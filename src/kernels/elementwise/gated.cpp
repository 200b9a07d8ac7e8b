// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/gated.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

// Elementary operations per pair, counted in math/elementary_activations-inl.h, roughly.
constexpr double kFlopsForward = 31, kFlopsBackward = 73;

constexpr Implementation<GatedForward> kForward[] = {
    {"simd",
     [](const Exec&, const GatedForward& a) {
       return refuse_wide({a.u_TG, a.y_TF});
     },
     gated_forward_simd},
    {"reference", [](const Exec&, const GatedForward&) { return std::string_view(); },
     gated_forward_reference},
};
constexpr Implementation<GatedBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const GatedBackward& a) {
       return refuse_wide({a.dy_TF, a.u_TG, a.du_TG});
     },
     gated_backward_simd},
    {"reference", [](const Exec&, const GatedBackward&) { return std::string_view(); },
     gated_backward_reference},
};

void check_pairs(const ConstView& pairs_TG, const ConstView& half_TF) {
  MEGA_CHECK(pairs_TG.shape().num_dims() == 2 && half_TF.shape().num_dims() == 2);
  MEGA_CHECK(pairs_TG.size(0) == half_TF.size(0) && pairs_TG.size(1) == 2 * half_TF.size(1),
             "{} is no pairs of {}", pairs_TG.shape(), half_TF.shape());
}

}  // namespace

void gated_forward(Exec& exec, const GatedForward& a) {
  check_pairs(a.u_TG, a.y_TF);
  check_storage({a.u_TG, a.y_TF});
  const device::Work work{kFlopsForward * static_cast<double>(a.y_TF.num_elements()),
                          a.u_TG.bytes(), a.y_TF.bytes()};
  run_chosen<GatedForward>(exec, "gated_forward", work, kForward, a);
}

void gated_backward(Exec& exec, const GatedBackward& a) {
  check_pairs(a.u_TG, a.dy_TF);
  check_same_shape(a.u_TG, a.du_TG);
  check_storage({a.dy_TF, a.u_TG, a.du_TG});
  const bool same_layout =
      a.du_TG.dtype() == a.u_TG.dtype() && a.du_TG.row_stride() == a.u_TG.row_stride();
  MEGA_CHECK(a.du_TG.data() != a.u_TG.data() || same_layout, "du is laid over u in another way");
  const device::Work work{kFlopsBackward * static_cast<double>(a.dy_TF.num_elements()),
                          a.dy_TF.bytes() + a.u_TG.bytes(), a.du_TG.bytes()};
  run_chosen<GatedBackward>(exec, "gated_backward", work, kBackward, a);
}

}  // namespace megalith::kernels
