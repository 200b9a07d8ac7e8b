// SPDX-License-Identifier: Apache-2.0
// One linear layer as tensors, for the tests of its operations.
#pragma once

#include <functional>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/matmul/library.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/linear_cases.h"

namespace megalith::kernels::matmul {

using testing::TestTensor;

enum class Operation : uint8_t { forward, backward_input, backward_weight };
inline constexpr Operation kOperations[] = {Operation::forward, Operation::backward_input,
                                            Operation::backward_weight};

/// The types of x (and dy), w and the result.
struct Types {
  DType x;
  DType w;
  DType result;
};
inline constexpr Types kTypes[] = {
    {DType::f32, DType::f32, DType::f32},         {DType::bf16, DType::bf16, DType::bf16},
    {DType::bf16, DType::bf16, DType::f32},       {DType::bf16, DType::f32, DType::f32},
    {DType::f32, DType::bf16, DType::bf16},       {DType::f8_e4m3, DType::f8_e4m3, DType::bf16},
    {DType::f8_e5m2, DType::f8_e4m3, DType::f32}, {DType::f32, DType::f8_e5m2, DType::f32},
    {DType::f16, DType::f16, DType::f16},         {DType::f16, DType::f32, DType::f16},
    {DType::f32, DType::f16, DType::f32},         {DType::bf16, DType::f16, DType::f32}};
inline constexpr Types kDouble = {DType::f64, DType::f64, DType::f64};

/// The tensors of one linear layer. Rows are farther apart than they are long, and starts are
/// misaligned; gaps are checked at the end.
struct Layer {
  LinearCase c;
  TestTensor x, w, y, bias, u, dy, dx, dw, v;  // v: the input's pre-activation
  std::vector<int32_t> cu_runs;
  TestTensor factor{DType::f32, {1}};  // of all three
  bool scaled = false;

  Layer(const LinearCase& shape, const Types& types)
      : c(shape),
        x(types.x, {c.rows, c.inputs}, 3, 1),
        w(types.w, {c.outputs, c.inputs}, 5, 3),
        y(types.result, {c.rows, c.outputs}, 2, 1),
        bias(bytes_of(types.w) == 1 ? DType::bf16 : types.w, {c.outputs}, 0, 1),
        u(types.result, {c.rows, c.outputs}, 1, 0),
        dy(types.x, {c.rows, c.outputs}, 0, 2),
        dx(types.result, {c.rows, c.inputs}, 7, 5),
        dw(types.result == DType::f64 ? DType::f64 : DType::f32, {c.outputs, c.inputs}, 1, 1),
        v(types.result, {c.rows, c.inputs}, 0, 1) {}

  void fill_normal() {
    x.fill_normal(1);
    w.fill_normal(2);
    bias.fill_normal(3);
    dy.fill_normal(4);
    dw.fill_normal(5);
    v.fill_normal(6);
  }
  /// Sums of up to 2^11 products of these are exact in f32 in any order.
  void fill_exact() {
    x.fill_integers(1, -8, 8);
    w.fill_integers(2, -8, 8);
    bias.fill_integers(3, -8, 8);
    dy.fill_integers(4, -8, 8);
    dw.fill_integers(5, -64, 64);
  }
  void copy_inputs_from(const Layer& other) {
    const auto copy = [](TestTensor& to, const TestTensor& from) {
      to.fill([&](int64_t i) { return from.at(i); });
    };
    copy(x, other.x);
    copy(w, other.w);
    copy(bias, other.bias);
    copy(dy, other.dy);
    copy(dw, other.dw);
    copy(v, other.v);
  }

  ConstView scale() const { return scaled ? factor.view() : ConstView(); }
  LinearForward forward() {
    return {.x_TI = x, .w_OI = w, .y_TO = y, .k_shards = c.k_shards, .scale = scale()};
  }
  /// The number of shards if it divides the contracted dimension, else 1.
  LinearBackwardInput backward_input() {
    return {.dy_TO = dy,
            .w_OI = w,
            .dx_TI = dx,
            .k_shards = c.outputs % c.k_shards == 0 ? c.k_shards : 1,
            .scale = scale()};
  }
  LinearBackwardWeight backward_weight() {
    return {.dy_TO = dy, .x_TI = x, .dw_OI = dw, .cu_runs = cu_runs, .scale = scale()};
  }

  void run(device::Device& on, Operation operation, std::string_view only,
           Numerics numerics = Numerics::exact) {
    Exec exec(on, numerics);
    exec.only = only;
    if (operation == Operation::forward) linear_forward(exec, forward());
    if (operation == Operation::backward_input) linear_backward_input(exec, backward_input());
    if (operation == Operation::backward_weight) linear_backward_weight(exec, backward_weight());
    EXPECT_EQ(exec.workspace.in_use(), 0);
    if (on.is_host_memory()) testing::expect_denormals(on, "a product");
  }
  const TestTensor& result(Operation operation) const {
    return operation == Operation::forward ? y : operation == Operation::backward_input ? dx : dw;
  }
  void expect_gaps_untouched() const {
    y.expect_gaps_untouched();
    u.expect_gaps_untouched();
    dx.expect_gaps_untouched();
    dw.expect_gaps_untouched();
  }
  /// sum |a b| of each element of the result, in double.
  TestTensor magnitudes(device::Device& on, Operation operation) const {
    Layer positive(c, kDouble);
    positive.copy_inputs_from(*this);
    for (TestTensor* t : {&positive.x, &positive.w, &positive.dy, &positive.dw})
      t->fill([&](int64_t i) { return std::abs(t->at(i)); });
    positive.run(on, operation, "reference");
    return positive.result(operation);
  }
  /// The bound for a chain of n roundings and the result's own:
  ///   (n + 8) u sum |a b| + u_result |sum|
  std::function<double(int64_t)> bound(device::Device& on, Operation operation) const {
    const double n = static_cast<double>(operation == Operation::forward          ? c.inputs
                                         : operation == Operation::backward_input ? c.outputs
                                                                                  : c.rows);
    const double unit = (n + 8) * 0x1p-24 + testing::unit_roundoff(result(operation).dtype());
    return [sums = magnitudes(on, operation), unit](int64_t i) { return 1.1 * unit * sums.at(i); };
  }
};

inline std::string describe(const LinearCase& c, const Types& types, Operation operation,
                            std::string_view device) {
  return fmt::format("{} {}*{}->{} operation {} on {}", c.name(), types.x, types.w, types.result,
                     static_cast<int>(operation), device);
}

/// oneDNN needs operands of one type that it supports here, and takes f32 only to f32 and no codes
/// of 8 bits.
inline bool onednn_takes(const Types& types) {
  return types.x == types.w && bytes_of(types.x) > 1 && library_multiplies(types.x) &&
         (types.x != DType::f32 || types.result == DType::f32);
}

}  // namespace megalith::kernels::matmul
