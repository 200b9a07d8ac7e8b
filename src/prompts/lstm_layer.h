// SPDX-License-Identifier: Apache-2.0
// A layer of a bidirectional LSTM (Hochreiter & Schmidhuber 1997; Graves & Schmidhuber 2005) over
// the rows of virtual tokens: one cell reads them from the first on, another from the last.
//   u_t = (x_t w_ih^T + b_ih) + (h_before w_hh^T + b_hh)      kernels/elementwise/lstm_cell.h: c, h
#pragma once

#include <string>
#include <vector>

#include "prompts/affine.h"

namespace megalith::prompts {

/// The cell of one direction.
class LstmDirection {
 public:
  /// Declares `name`.weight_ih`suffix` [4 H, I], bias_ih [4 H], weight_hh [4 H, H] and bias_hh
  /// [4 H]: torch's names, and its order of gates.
  LstmDirection(parameters::ParameterSet& set, const std::string& name, const std::string& suffix,
                int64_t inputs, int64_t hidden, bool from_the_end, DType dtype);

  struct Saved {
    device::Tensor u_PG, c_PH;
  };
  /// h is overwritten. Fills `saved`.
  void forward(kernels::Exec& exec, ConstView x_PI, View h_PH, Saved& saved) const;
  /// Weights' gradients accumulate; dx is overwritten.
  void backward(kernels::Exec& exec, ConstView dh_PH, ConstView x_PI, ConstView h_PH,
                const Saved& saved, View dx_PI) const;

 private:
  int64_t hidden() const { return hidden_.inputs(); }
  /// The row that is read as number `step` of `rows`.
  int64_t row_at(int64_t step, int64_t rows) const {
    return from_the_end_ ? rows - 1 - step : step;
  }
  void add_gradients(kernels::Exec& exec, ConstView du_PG, ConstView x_PI, ConstView h_PH) const;

  Affine input_, hidden_;
  bool from_the_end_;
};

class LstmLayer {
 public:
  /// Declares the cells' parameters, "_l`number`" and "_l`number`_reverse".
  LstmLayer(parameters::ParameterSet& set, const std::string& name, int64_t number, int64_t inputs,
            int64_t hidden, DType dtype);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return 2 * hidden_; }

  struct Saved {
    LstmDirection::Saved forth, back;
  };
  /// y, overwritten: the first cell's H columns, then the other's. Fills `saved`.
  void forward(kernels::Exec& exec, ConstView x_PI, View y_PO, Saved& saved) const;
  /// Weights' gradients accumulate; dx is overwritten.
  void backward(kernels::Exec& exec, ConstView dy_PO, ConstView x_PI, ConstView y_PO,
                const Saved& saved, View dx_PI) const;

 private:
  int64_t inputs_, hidden_;
  LstmDirection forth_, back_;
};

}  // namespace megalith::prompts
