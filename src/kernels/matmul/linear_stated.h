// SPDX-License-Identifier: Apache-2.0
// The arithmetic of linear.h spelled out for one element, in scalar code. For tests only.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/matmul/linear_layer.h"
#include "math/bf16_chain.h"

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

/// Continues the chain `sum` with a(k) b(k) for k in [begin, end).
template <typename A, typename B>
float stated_chain(bool bf16, int64_t begin, int64_t end, float sum, const A& a, const B& b) {
  if (!bf16) {
    for (int64_t k = begin; k < end; ++k) sum = std::fma(a(k), b(k), sum);
    return sum;
  }
  for (int64_t k = begin; k < end; k += 2) {
    const bool whole = k + 1 < end;
    sum = bf16_chain_step(a(k), b(k), whole ? a(k + 1) : 0, whole ? b(k + 1) : 0, sum);
  }
  return sum;
}

/// Sums of the shards [lo, hi) of `width`, shard(begin, end) each, in their tree.
template <typename Shard>
float stated_tree(int lo, int hi, int64_t width, const Shard& shard) {
  if (hi - lo == 1) return shard(lo * width, hi * width);
  const int mid = lo + (hi - lo + 1) / 2;
  return stated_tree(lo, mid, width, shard) + stated_tree(mid, hi, width, shard);
}

/// Operands that bf16 does not hold.
inline bool is_wide(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }

/// Elements of an operation's result from the layer's operands.
class StatedElement {
 public:
  StatedElement(const Layer& l, Operation operation, int k_shards)
      : c_(l.c),
        operation_(operation),
        k_shards_(k_shards),
        bf16_(!is_wide(l.x.dtype()) &&
              (operation == Operation::backward_weight || !is_wide(l.w.dtype()))),
        scale_(l.scaled ? std::optional(static_cast<float>(l.factor.at(0))) : std::nullopt),
        cu_runs_(l.cu_runs),
        x_(l.x),
        w_(l.w),
        dy_(l.dy),
        dw_(l.dw) {
    if (cu_runs_.empty()) cu_runs_ = {0, static_cast<int32_t>(c_.rows)};
  }

  float operator()(int64_t row, int64_t column) const {
    const auto tree = [&](int64_t elements, const auto& a, const auto& b) {
      return stated_tree(0, k_shards_, elements / k_shards_, [&](int64_t begin, int64_t end) {
        return stated_chain(bf16_, begin, end, 0, a, b);
      });
    };
    const float scale = scale_.value_or(1);
    if (operation_ == Operation::forward)
      return scale * tree(
                         c_.inputs, [&](int64_t k) { return x_(row, k); },
                         [&](int64_t k) { return w_(column, k); });
    if (operation_ == Operation::backward_input)
      return scale * tree(
                         c_.outputs, [&](int64_t k) { return dy_(row, k); },
                         [&](int64_t k) { return w_(k, column); });
    float sum = scale_ ? 0 : dw_(row, column);
    for (size_t r = 0; r + 1 < cu_runs_.size(); ++r)
      sum = stated_chain(
          bf16_, cu_runs_[r], cu_runs_[r + 1], sum, [&](int64_t t) { return dy_(t, row); },
          [&](int64_t t) { return x_(t, column); });
    if (!scale_) return sum;
    const float scaled = scale * sum;
    return dw_(row, column) + scaled;
  }

 private:
  LinearCase c_;
  Operation operation_;
  int k_shards_;
  bool bf16_;
  std::optional<float> scale_;
  std::vector<int32_t> cu_runs_;
  Floats x_, w_, dy_, dw_;
};

}  // namespace megalith::kernels::matmul
