// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/lstm_cell.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

// Elementary operations per column of H, counted in math/elementary_functions-inl.h, roughly.
constexpr double kFlopsForward = 110, kFlopsBackward = 130;

constexpr Implementation<LstmCellForward> kForward[] = {
    {"simd", [](const Exec&, const LstmCellForward& a) { return refuse_wide({a.u_TG}); },
     lstm_cell_forward_simd},
    {"reference", [](const Exec&, const LstmCellForward&) { return std::string_view(); },
     lstm_cell_forward_reference},
};
constexpr Implementation<LstmCellBackward> kBackward[] = {
    {"simd", [](const Exec&, const LstmCellBackward& a) { return refuse_wide({a.u_TG}); },
     lstm_cell_backward_simd},
    {"reference", [](const Exec&, const LstmCellBackward&) { return std::string_view(); },
     lstm_cell_backward_reference},
};

void check_gates(const ConstView& u_TG, const ConstView& one_TH) {
  MEGA_CHECK(u_TG.shape().num_dims() == 2 && one_TH.shape().num_dims() == 2);
  MEGA_CHECK(u_TG.size(0) == one_TH.size(0) && u_TG.size(1) == 4 * one_TH.size(1),
             "{} are no gates of {}", u_TG.shape(), one_TH.shape());
  MEGA_CHECK(u_TG.dtype() == DType::f32 || u_TG.dtype() == DType::f64, "a cell of {}",
             u_TG.dtype());
}
/// Of the shape and the type of another; `before` may be absent.
void check_alike(const ConstView& view, const ConstView& other) {
  check_same_shape(view, other);
  MEGA_CHECK_EQ(view.dtype(), other.dtype());
}

}  // namespace

void lstm_cell_forward(Exec& exec, const LstmCellForward& a) {
  check_gates(a.u_TG, a.h_TH);
  MEGA_CHECK_EQ(a.h_TH.dtype(), a.u_TG.dtype());
  check_alike(a.c_TH, a.h_TH);
  if (a.before_TH) check_alike(a.before_TH, a.h_TH);
  const device::Work work{kFlopsForward * static_cast<double>(a.h_TH.num_elements()),
                          a.u_TG.bytes() + (a.before_TH ? a.before_TH.bytes() : 0),
                          a.c_TH.bytes() + a.h_TH.bytes()};
  run_chosen<LstmCellForward>(exec, "lstm_cell_forward", work, kForward, a);
}

void lstm_cell_backward(Exec& exec, const LstmCellBackward& a) {
  check_gates(a.u_TG, a.dh_TH);
  check_alike(a.du_TG, a.u_TG);
  MEGA_CHECK_EQ(a.dh_TH.dtype(), a.u_TG.dtype());
  check_alike(a.c_TH, a.dh_TH);
  check_alike(a.dc_TH, a.dh_TH);
  if (a.before_TH) check_alike(a.before_TH, a.dh_TH);
  const int64_t one = a.dh_TH.bytes();
  const device::Work work{kFlopsBackward * static_cast<double>(a.dh_TH.num_elements()),
                          a.u_TG.bytes() + (a.before_TH ? 4 : 3) * one, a.du_TG.bytes() + one};
  run_chosen<LstmCellBackward>(exec, "lstm_cell_backward", work, kBackward, a);
}

}  // namespace megalith::kernels
