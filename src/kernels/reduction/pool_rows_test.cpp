// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/pool_rows.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

struct PoolCase {
  std::vector<int32_t> ends;  // cu_seqlens
  int64_t spare;              // pooled rows beyond the sequences
  int64_t columns;
  int64_t rows() const { return ends.back(); }
  int64_t pooled() const { return std::ssize(ends) - 1 + spare; }
};

/// One sequence and many, of one row, empty, odd tails, spare rows, no rows at all.
const PoolCase kPoolCases[] = {{{0, 1}, 0, 1},
                               {{0, 7}, 2, 5},
                               {{0, 3, 4, 9}, 0, 33},
                               {{0, 0, 5, 5}, 1, 16},
                               {{0, 40, 41, 80}, 77, 71},
                               {{0}, 3, 4}};
constexpr Pooling kPoolings[] = {Pooling::first, Pooling::last, Pooling::mean};

std::string describe(const PoolCase& c, Pooling pooling) {
  return fmt::format("{} rows, {} sequences, {} columns, {}", c.rows(), std::ssize(c.ends) - 1,
                     c.columns, static_cast<int>(pooling));
}

TestTensor ends_of(const PoolCase& c) {
  return TestTensor(DType::i32, Shape{std::ssize(c.ends)}).fill([&](int64_t i) {
    return c.ends[static_cast<size_t>(i)];
  });
}

Outputs pooled(Exec& exec, const PoolCase& c, Pooling pooling, const TestTensor& x) {
  const DType sums = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  TestTensor y(sums, Shape{c.pooled(), c.columns}, 3, 1);
  pool_rows_forward(exec, {x, ends_of(c), y, pooling});
  return {y};
}

Outputs spread(Exec& exec, const PoolCase& c, Pooling pooling, const TestTensor& dy, DType to) {
  TestTensor dx(to, Shape{c.rows(), c.columns}, 2, 1);
  pool_rows_backward(exec, {dy, ends_of(c), dx, pooling});
  return {dx};
}

/// The mean of n rows: n additions, a division, and the reference's own rounding, each within u of
/// the mean of absolute values.
TEST(PoolRows, ForwardIsTheReferenceWithinItsBound) {
  for (const PoolCase& c : kPoolCases) {
    for (const Pooling pooling : kPoolings) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const TestTensor x = TestTensor(dtype, Shape{c.rows(), c.columns}, 1).fill_normal(1);
        TestTensor magnitudes = x;
        magnitudes.fill([&](int64_t i) { return std::abs(x.at(i)); });
        const auto run = [&](Exec& exec) { return pooled(exec, c, pooling, x); };
        const Outputs y = testing::run_everywhere(run, describe(c, pooling)),
                      expected = testing::run_reference(run),
                      scale = testing::run_reference(
                          [&](Exec&exec) { return pooled(exec, c, pooling, magnitudes); });
        const double terms = pooling == Pooling::mean ? static_cast<double>(c.rows()) : 0;
        testing::expect_close(
            y[0], expected[0],
            [&](int64_t i) { return 1.01 * (terms + 2) * 0x1p-24 * scale[0].at(i); },
            describe(c, pooling));
        if (pooling != Pooling::mean) testing::expect_same_bits(y, expected, describe(c, pooling));
      }
    }
  }
}

TEST(PoolRows, FirstAndLastAreTheRowsAndSpareRowsAreZero) {
  const PoolCase c{{0, 3, 4, 9}, 2, 6};
  const TestTensor x = TestTensor(DType::f32, Shape{9, 6}).fill_normal(1);
  for (const Pooling pooling : {Pooling::first, Pooling::last}) {
    const Outputs y = testing::run_everywhere(
        [&](Exec& exec) { return pooled(exec, c, pooling, x); }, describe(c, pooling));
    for (int64_t u = 0; u < 5; ++u) {
      const auto s = static_cast<size_t>(u);
      const int64_t row = u < 3 ? (pooling == Pooling::first ? c.ends[s] : c.ends[s + 1] - 1) : -1;
      for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(y[0].at(u, i), row < 0 ? 0 : x.at(row, i)) << u;
    }
  }
}

/// <pool(x), y> = <x, spread(y)>, in integers and lengths that are powers of two: exact.
TEST(PoolRows, BackwardIsTheAdjoint) {
  const PoolCase c{{0, 4, 6, 14, 15}, 3, 19};
  for (const Pooling pooling : kPoolings) {
    const TestTensor x = TestTensor(DType::f32, Shape{c.rows(), c.columns}).fill_integers(1, -9, 9),
                     dy = TestTensor(DType::f32, Shape{c.pooled(), c.columns})
                              .fill_integers(2, -9, 9);
    const Outputs y = testing::run_everywhere(
        [&](Exec& exec) { return pooled(exec, c, pooling, x); }, describe(c, pooling));
    const Outputs dx = testing::run_everywhere(
        [&](Exec& exec) { return spread(exec, c, pooling, dy, DType::f32); }, describe(c, pooling));
    EXPECT_EQ(testing::weighted_sum(y[0], dy), testing::weighted_sum(x, dx[0]));
  }
}

TEST(PoolRows, BackwardRoundsOnce) {
  for (const PoolCase& c : kPoolCases) {
    for (const Pooling pooling : kPoolings) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const TestTensor dy =
            TestTensor(DType::f32, Shape{c.pooled(), c.columns}, 1).fill_normal(1);
        const auto run = [&](Exec& exec) { return spread(exec, c, pooling, dy, dtype); };
        const Outputs dx = testing::run_everywhere(run, describe(c, pooling)),
                      expected = testing::run_reference(run);
        // A quotient rounds to f32, and once more to bf16.
        testing::expect_close(
            dx[0], expected[0],
            [&](int64_t i) {
              return 2.01 * testing::unit_roundoff(dtype) * std::abs(expected[0].at(i));
            },
            describe(c, pooling));
      }
    }
  }
}

TEST(PoolRows, IsCountedAndRefusesWhatDoesNotFit) {
  const PoolCase c{{0, 3, 4}, 0, 6};
  const TestTensor x(DType::f32, Shape{4, 6});
  testing::traced_work([&](Exec& exec) { pooled(exec, c, Pooling::mean, x); }, "pool_rows_forward");
  testing::traced_work([&](Exec& exec) { spread(exec, c, Pooling::mean, x, DType::bf16); },
                       "pool_rows_backward");
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor y(DType::f32, Shape{1, 6}), wide(DType::f32, Shape{2, 7}),
      narrow(DType::bf16, Shape{2, 6});
  for (TestTensor* bad : {&y, &wide, &narrow})
    EXPECT_THROW(pool_rows_forward(exec, {x, ends_of(c), *bad, Pooling::mean}), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
