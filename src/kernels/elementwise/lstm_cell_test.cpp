// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/lstm_cell.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/elementwise_cases.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

TestTensor tensor(DType dtype, const ElementwiseCase& c, int64_t width = 1) {
  return TestTensor(dtype, Shape{c.rows, width * c.columns}, c.gap, c.misaligned);
}

/// What cells read.
struct Inputs {
  Inputs(DType dtype, const ElementwiseCase& c)
      : u(tensor(dtype, c, 4).fill_normal(1, 2)),
        before(tensor(dtype, c).fill_normal(2)),
        dh(tensor(dtype, c).fill_normal(3)),
        dc(tensor(dtype, c).fill_normal(4)) {}
  TestTensor u, before, dh, dc;
};

/// c and h.
Outputs forward(Exec& exec, const Inputs& in, const ElementwiseCase& c, bool has_before = true) {
  TestTensor cell = tensor(in.u.dtype(), c), h = cell;
  lstm_cell_forward(exec, {in.u, has_before ? ConstView(in.before) : ConstView(), cell, h});
  return {cell, h};
}
/// du and dc, of given cells.
Outputs backward(Exec& exec, const Inputs& in, const TestTensor& cell, const ElementwiseCase& c,
                 bool has_before = true) {
  TestTensor du = tensor(in.u.dtype(), c, 4), dc = in.dc;
  lstm_cell_backward(exec,
                     {in.dh, in.u, has_before ? ConstView(in.before) : ConstView(), cell, dc, du});
  return {du, dc};
}

constexpr double kUnit = 0x1p-24;  // the relative error of a rounding

/// math/elementary.h: a sigmoid is within 2.5 ulp, 5 units, of itself, a tanh within 1.5, 3 units.
/// So i g is within 9 units of itself and f before within 5; the sum adds one of c. tanh(c) moves
/// by no more than c, and h has a product and a rounding more. With d <= |dh| + |dc| = S, the error
/// of d is below 18 S units (1 - tanh(c)^2 is within 7, dh o within 6, the sum rounds once); s (1 -
/// s) is within 12, 1 - g^2 within 8, and each product rounds once: below 40 S units everywhere,
/// times `before` where that is a factor.
TEST(LstmCell, EqualsTheReferenceWithinItsBound) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    for (const bool has_before : {true, false}) {
      const Inputs in(DType::f32, c);
      const std::string what = fmt::format("{}x{} {}", c.rows, c.columns, has_before);
      const auto ahead = [&](Exec& exec) { return forward(exec, in, c, has_before); };
      const Outputs made = testing::run_everywhere(ahead, what);
      const Outputs expected = testing::run_reference(ahead);
      const auto before = [&](int64_t i) { return has_before ? std::abs(in.before.at(i)) : 0; };
      testing::expect_close(
          made[0], expected[0], [&](int64_t i) { return 12 * kUnit * (1 + before(i)); },
          what + " c");
      testing::expect_close(
          made[1], expected[1], [&](int64_t i) { return 22 * kUnit * (1 + before(i)); },
          what + " h");
      const auto back = [&](Exec& exec) {
        return backward(exec, in, expected[0].as(DType::f32, c.gap, c.misaligned), c, has_before);
      };
      const Outputs gradients = testing::run_everywhere(back, what + " back");
      const Outputs exact = testing::run_reference(back);
      const auto bound = [&](int64_t i, bool of_before) {
        const double size = std::abs(in.dh.at(i)) + std::abs(in.dc.at(i));
        return 40 * kUnit * size * (of_before ? before(i) : 1);
      };
      testing::expect_close(
          gradients[0], exact[0],
          [&](int64_t k) {
            const int64_t row = k / (4 * c.columns), column = k % (4 * c.columns);
            return bound(row * c.columns + column % c.columns, column / c.columns == 1);
          },
          what + " du");
      testing::expect_close(
          gradients[1], exact[1], [&](int64_t i) { return bound(i, false); }, what + " dc");
    }
  }
}

TEST(LstmCell, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const ElementwiseCase c = {3, 5};
  for (const bool has_before : {true, false}) {
    Inputs in(DType::f64, c);
    // dc is the gradient of c itself, from what comes behind.
    const auto loss = [&] {
      const Outputs made = forward(exec, in, c, has_before);
      return testing::weighted_sum(made[0], in.dc) + testing::weighted_sum(made[1], in.dh);
    };
    const Outputs gradients =
        backward(exec, in, forward(exec, in, c, has_before)[0], c, has_before);
    testing::expect_gradient(loss, in.u, gradients[0], 1e-9, "u");
    if (has_before) testing::expect_gradient(loss, in.before, gradients[1], 1e-9, "before");
  }
}

/// Gates that are wide open or shut: what is kept is kept to the bit.
TEST(LstmCell, KeepsWhatItKeeps) {
  const ElementwiseCase c = {2, 19};
  Inputs in(DType::f32, c);
  in.u.fill([&](int64_t k) { return (k / c.columns) % 4 == 1 ? 100 : -100; });
  const Outputs made =
      testing::run_everywhere([&](Exec& exec) { return forward(exec, in, c); }, "kept");
  testing::expect_same_bits(made[0], in.before, "c");
}

TEST(LstmCell, BeforeTheFirstStepThereIsZero) {
  const ElementwiseCase c = {5, 33, 2, 1};
  Inputs in(DType::f32, c);
  const auto all = [&](bool has_before) {
    return testing::run_everywhere(
        [&](Exec& exec) {
          Outputs both = forward(exec, in, c, has_before);
          const Outputs back = backward(exec, in, both[0], c, has_before);
          both.insert(both.end(), back.begin(), back.end());
          return both;
        },
        "first");
  };
  const Outputs absent = all(false);
  in.before.fill_constant(0);
  testing::expect_same_bits(absent, all(true), "zeros");
}

TEST(LstmCell, RowsAreIndependent) {
  const ElementwiseCase c = {4, 37}, one = {1, 37};
  const Inputs in(DType::f32, c);
  const Outputs all =
      testing::run_everywhere([&](Exec& exec) { return forward(exec, in, c); }, "all");
  for (int64_t row = 0; row < c.rows; ++row) {
    Inputs alone(DType::f32, one);
    alone.u.fill([&](int64_t k) { return in.u.at(row, k); });
    alone.before.fill([&](int64_t k) { return in.before.at(row, k); });
    const Outputs made =
        testing::run_everywhere([&](Exec& exec) { return forward(exec, alone, one); }, "alone");
    for (int64_t j = 0; j < c.columns; ++j) {
      EXPECT_EQ(made[0].at(0, j), all[0].at(row, j));
      EXPECT_EQ(made[1].at(0, j), all[1].at(row, j));
    }
  }
}

TEST(LstmCell, NaNStaysInItsColumn) {
  const ElementwiseCase c = {2, 21};
  Inputs in(DType::f32, c);
  in.u.set(1, 2 * c.columns + 4, NAN);
  const Outputs made =
      testing::run_everywhere([&](Exec& exec) { return forward(exec, in, c); }, "NaN");
  for (int64_t i = 0; i < made[1].size(); ++i)
    EXPECT_EQ(std::isnan(made[1].at(i)), i == c.columns + 4);
}

TEST(LstmCell, WrongShapesAreRefusedAndBytesCounted) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor u(DType::f32, Shape{3, 20}), h(DType::f32, Shape{3, 5}), odd(DType::f32, Shape{3, 4});
  TestTensor half(DType::bf16, Shape{3, 20}), half_h(DType::bf16, Shape{3, 5});
  EXPECT_THROW(lstm_cell_forward(exec, {u, {}, odd, odd}), InternalError);
  EXPECT_THROW(lstm_cell_forward(exec, {u, odd, h, h}), InternalError);
  EXPECT_THROW(lstm_cell_forward(exec, {half, {}, half_h, half_h}), InternalError);
  EXPECT_THROW(lstm_cell_backward(exec, {h, u, {}, h, odd, u}), InternalError);
  const auto work = testing::traced_work(
      [&](Exec& e) {
        lstm_cell_backward(e, {h, u, h, h, h, u});
      },
      "lstm_cell_backward");
  EXPECT_EQ(work.bytes_read, (20 + 4 * 5) * 3 * 4);
  EXPECT_EQ(work.bytes_written, (20 + 5) * 3 * 4);
}

}  // namespace
}  // namespace megalith::kernels
