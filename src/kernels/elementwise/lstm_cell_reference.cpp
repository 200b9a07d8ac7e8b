// SPDX-License-Identifier: Apache-2.0
// The specification: the formulas of lstm_cell.h in double, column by column.
#include "kernels/elementary/reference_access.h"
#include "kernels/elementwise/activation_reference.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

struct Gates {
  double i, f, g, o;
};
Gates gates_of(const ConstView& u_TG, int64_t t, int64_t j) {
  const int64_t width = u_TG.size(1) / 4;
  return {reference_sigmoid(read_double(u_TG, t, j)),
          reference_sigmoid(read_double(u_TG, t, width + j)),
          std::tanh(read_double(u_TG, t, 2 * width + j)),
          reference_sigmoid(read_double(u_TG, t, 3 * width + j))};
}
double before_of(const ConstView& before_TH, int64_t t, int64_t j) {
  return before_TH.absent() ? 0 : read_double(before_TH, t, j);
}

}  // namespace

void lstm_cell_forward_reference(Exec&, const LstmCellForward& a) {
  for (int64_t t = 0; t < a.h_TH.size(0); ++t) {
    for (int64_t j = 0; j < a.h_TH.size(1); ++j) {
      const Gates gates = gates_of(a.u_TG, t, j);
      const double c = gates.f * before_of(a.before_TH, t, j) + gates.i * gates.g;
      write_double(a.c_TH, t, j, c);
      write_double(a.h_TH, t, j, gates.o * std::tanh(c));
    }
  }
}

void lstm_cell_backward_reference(Exec&, const LstmCellBackward& a) {
  const int64_t width = a.dh_TH.size(1);
  for (int64_t t = 0; t < a.dh_TH.size(0); ++t) {
    for (int64_t j = 0; j < width; ++j) {
      const auto [i, f, g, o] = gates_of(a.u_TG, t, j);
      const double dh = read_double(a.dh_TH, t, j), tanh_c = std::tanh(read_double(a.c_TH, t, j));
      const double d = dh * o * (1 - tanh_c * tanh_c) + read_double(a.dc_TH, t, j);
      write_double(a.du_TG, t, j, d * g * i * (1 - i));
      write_double(a.du_TG, t, width + j, d * before_of(a.before_TH, t, j) * f * (1 - f));
      write_double(a.du_TG, t, 2 * width + j, d * i * (1 - g * g));
      write_double(a.du_TG, t, 3 * width + j, dh * tanh_c * o * (1 - o));
      write_double(a.dc_TH, t, j, d * f);
    }
  }
}

}  // namespace megalith::kernels
