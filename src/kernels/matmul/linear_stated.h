// SPDX-License-Identifier: Apache-2.0
// The arithmetic of linear.h spelled out for one element, with the compiler's fma. For tests only.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/matmul/linear_layer.h"

namespace megalith::kernels::matmul {

/// A tensor as plain floats.
struct Floats {
  std::vector<float> values;
  int64_t columns;
  explicit Floats(const TestTensor& t) : columns(t.columns()) {
    for (int64_t i = 0; i < t.size(); ++i) values.push_back(static_cast<float>(t.at(i)));
  }
  float operator()(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

/// Sum over k of term(k, sum so far) in each shard of `width`, the shards' sums in their tree.
template <typename Term>
float stated_tree(int lo, int hi, int64_t width, const Term& term) {
  if (hi - lo == 1) {
    float sum = 0;
    for (int64_t k = lo * width; k < hi * width; ++k) sum = term(k, sum);
    return sum;
  }
  const int mid = lo + (hi - lo + 1) / 2;
  return stated_tree(lo, mid, width, term) + stated_tree(mid, hi, width, term);
}

/// Elements of an operation's result from the layer's operands.
class StatedElement {
 public:
  StatedElement(const Layer& l, Operation operation, int k_shards)
      : c_(l.c),
        operation_(operation),
        k_shards_(k_shards),
        x_(l.x),
        w_(l.w),
        dy_(l.dy),
        dw_(l.dw) {}

  float operator()(int64_t row, int64_t column) const {
    if (operation_ == Operation::forward)
      return stated_tree(0, k_shards_, c_.inputs / k_shards_, [&](int64_t k, float sum) {
        return std::fma(x_(row, k), w_(column, k), sum);
      });
    if (operation_ == Operation::backward_input)
      return stated_tree(0, k_shards_, c_.outputs / k_shards_, [&](int64_t k, float sum) {
        return std::fma(dy_(row, k), w_(k, column), sum);
      });
    float sum = dw_(row, column);
    for (int64_t t = 0; t < c_.rows; ++t) sum = std::fma(dy_(t, row), x_(t, column), sum);
    return sum;
  }

 private:
  LinearCase c_;
  Operation operation_;
  int k_shards_;
  Floats x_, w_, dy_, dw_;
};

}  // namespace megalith::kernels::matmul
