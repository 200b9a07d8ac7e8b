// SPDX-License-Identifier: Apache-2.0
#include "prompts/lstm_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/elementwise/lstm_cell.h"
#include "kernels/elementwise/pointwise.h"

namespace megalith::prompts {
namespace {

Affine::Names names_of(const std::string& name, const char* what, const std::string& suffix) {
  return {fmt::format("{}.weight_{}{}", name, what, suffix),
          fmt::format("{}.bias_{}{}", name, what, suffix)};
}

}  // namespace

LstmDirection::LstmDirection(parameters::ParameterSet& set, const std::string& name,
                             const std::string& suffix, int64_t inputs, int64_t hidden,
                             bool from_the_end, DType dtype)
    : input_(set, names_of(name, "ih", suffix), Shape{4 * hidden, inputs}, hidden, dtype),
      hidden_(set, names_of(name, "hh", suffix), Shape{4 * hidden, hidden}, hidden, dtype),
      from_the_end_(from_the_end) {}

void LstmDirection::forward(kernels::Exec& exec, ConstView x_PI, View h_PH, Saved& saved) const {
  const int64_t rows = x_PI.size(0);
  const DType dtype = x_PI.dtype();
  saved = {exec.workspace.tensor(dtype, Shape{rows, input_.outputs()}),
           exec.workspace.tensor(dtype, Shape{rows, hidden()})};
  input_.forward(exec, x_PI, saved.u_PG);
  const device::Tensor recurrent = exec.workspace.tensor(dtype, Shape{1, input_.outputs()});
  const device::Tensor nothing = exec.workspace.tensor(dtype, Shape{1, hidden()});
  exec.device.fill_zero(nothing);
  ConstView h_before = nothing, c_before;
  for (int64_t step = 0; step < rows; ++step) {
    const int64_t row = row_at(step, rows);
    const View u = saved.u_PG.view.rows(row, 1), c = saved.c_PH.view.rows(row, 1),
               h = h_PH.rows(row, 1);
    hidden_.forward(exec, h_before, recurrent);
    kernels::add(exec, u, recurrent, u);
    kernels::lstm_cell_forward(exec, {.u_TG = u, .before_TH = c_before, .c_TH = c, .h_TH = h});
    h_before = h;
    c_before = c;
  }
}

void LstmDirection::backward(kernels::Exec& exec, ConstView dh_PH, ConstView x_PI, ConstView h_PH,
                             const Saved& saved, View dx_PI) const {
  const int64_t rows = x_PI.size(0);
  const DType dtype = x_PI.dtype();
  const device::Tensor du = exec.workspace.tensor(dtype, Shape{rows, input_.outputs()});
  const device::Tensor dh = exec.workspace.tensor(dtype, Shape{1, hidden()});
  const device::Tensor dc = exec.workspace.tensor(dtype, Shape{1, hidden()});
  exec.device.fill_zero(dh);  // what the step behind gives
  exec.device.fill_zero(dc);
  for (int64_t step = rows; step-- > 0;) {
    const int64_t row = row_at(step, rows);
    const View du_row = du.view.rows(row, 1);
    kernels::add(exec, dh, dh_PH.rows(row, 1), dh);
    const ConstView c_before =
        step == 0 ? ConstView() : ConstView(saved.c_PH.view.rows(row_at(step - 1, rows), 1));
    kernels::lstm_cell_backward(exec, {.dh_TH = dh,
                                       .u_TG = saved.u_PG.view.rows(row, 1),
                                       .before_TH = c_before,
                                       .c_TH = saved.c_PH.view.rows(row, 1),
                                       .dc_TH = dc,
                                       .du_TG = du_row});
    if (step > 0) hidden_.backward_input(exec, du_row, dh);
  }
  add_gradients(exec, du, x_PI, h_PH);
  input_.backward_input(exec, du, dx_PI);
}

/// The first step has read no h.
void LstmDirection::add_gradients(kernels::Exec& exec, ConstView du_PG, ConstView x_PI,
                                  ConstView h_PH) const {
  input_.backward_weight(exec, du_PG, x_PI);
  input_.backward_bias(exec, du_PG);
  const int64_t pairs = std::max<int64_t>(du_PG.size(0) - 1, 0);
  const int64_t read = from_the_end_ ? 1 : 0;
  hidden_.backward_weight(exec, du_PG.rows(1 - read, pairs), h_PH.rows(read, pairs));
  hidden_.backward_bias(exec, du_PG);
}

LstmLayer::LstmLayer(parameters::ParameterSet& set, const std::string& name, int64_t number,
                     int64_t inputs, int64_t hidden, DType dtype)
    : inputs_(inputs),
      hidden_(hidden),
      forth_(set, name, fmt::format("_l{}", number), inputs, hidden, false, dtype),
      back_(set, name, fmt::format("_l{}_reverse", number), inputs, hidden, true, dtype) {}

void LstmLayer::forward(kernels::Exec& exec, ConstView x_PI, View y_PO, Saved& saved) const {
  forth_.forward(exec, x_PI, y_PO.columns(0, hidden_), saved.forth);
  back_.forward(exec, x_PI, y_PO.columns(hidden_, hidden_), saved.back);
}

void LstmLayer::backward(kernels::Exec& exec, ConstView dy_PO, ConstView x_PI, ConstView y_PO,
                         const Saved& saved, View dx_PI) const {
  forth_.backward(exec, dy_PO.columns(0, hidden_), x_PI, y_PO.columns(0, hidden_), saved.forth,
                  dx_PI);
  const device::Tensor other = exec.workspace.tensor(dx_PI.dtype(), dx_PI.shape());
  back_.backward(exec, dy_PO.columns(hidden_, hidden_), x_PI, y_PO.columns(hidden_, hidden_),
                 saved.back, other);
  kernels::add(exec, dx_PI, other, dx_PI);
}

}  // namespace megalith::prompts
