// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/dropout.h"

#include <gtest/gtest.h>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/elementwise/pointwise.h"
#include "math/random.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

TestTensor tensor(DType dtype, const ElementwiseCase& c) {
  return TestTensor(dtype, Shape{c.rows, c.columns}, c.gap, c.misaligned);
}

/// Rows' samples and positions: 7 rows per sample, sample numbers beyond 32 bits.
struct Rows {
  TestTensor sample, position;
  explicit Rows(int64_t rows) : sample(DType::i64, Shape{rows}), position(DType::i32, Shape{rows}) {
    sample.fill([](int64_t i) { return 5e9 + static_cast<double>(i / 7); });
    position.fill([](int64_t i) { return static_cast<double>(i % 7); });
  }
  Dropout dropout(float p, int64_t channel_begin = 0) const {
    return {.p = p,
            .key = 0x1234567890abcdef,
            .sample_T = sample,
            .position_T = position,
            .channel_begin = channel_begin};
  }
};

TEST(Dropout, EqualsTheReferenceWithinOneRounding) {
  for (const ElementwiseCase& c : kElementwiseCases) {
    const Rows rows(c.rows);
    for (const DType x_type : kNarrow) {
      for (const DType y_type : kNarrow) {
        for (const float p : {0.0f, 0.1f, 0.7f}) {
          const TestTensor x = tensor(x_type, c).fill_normal(1),
                           residual = tensor(y_type, c).fill_normal(2);
          const auto run = [&](Exec& exec) {
            TestTensor y = tensor(y_type, c), z = tensor(y_type, c), dx = tensor(x_type, c);
            dropout_forward(exec, {x, y, rows.dropout(p, 3)});
            residual_dropout_forward(exec, {x, residual, z, rows.dropout(p, 8)});
            residual_dropout_backward(exec, {residual, dx, rows.dropout(p, 8)});
            return Outputs{y, z, dx};
          };
          const std::string what = fmt::format("{}x{} p {}", c.rows, c.columns, p);
          const Outputs y = testing::run_everywhere(run, what);
          const Outputs expected = testing::run_reference(run);
          // Factor (1 - p exact in f64) three roundings, product and sum one each, then the
          // storage.
          for (size_t k = 0; k < y.size(); ++k) {
            const double storage = 2 * testing::unit_roundoff(y[k].dtype());
            testing::expect_close(
                y[k], expected[k],
                [&](int64_t i) {
                  const double largest = std::abs(expected[k].at(i)) +
                                         4 * (std::abs(x.at(i)) + std::abs(residual.at(i)));
                  return storage * std::abs(expected[k].at(i)) + 5 * 0x1p-24 * largest;
                },
                what);
          }
        }
      }
    }
  }
}

TEST(Dropout, KeepsWhatTheScalarDrawSays) {
  const ElementwiseCase c = {23, 1031};  // more than one stretch, no multiple of four
  const Rows rows(c.rows);
  const TestTensor ones = tensor(DType::f32, c).fill_constant(1);
  for (const int64_t channel_begin : {0, 1, 6, 1 << 20}) {
    const auto run = [&](Exec& exec) {
      TestTensor y = tensor(DType::f32, c);
      dropout_forward(exec, {ones, y, rows.dropout(0.25f, channel_begin)});
      return Outputs{y};
    };
    const Outputs y = testing::run_everywhere(run, "ones");
    for (int64_t t = 0; t < c.rows; ++t) {
      for (int64_t i = 0; i < c.columns; ++i) {
        const auto channel = static_cast<uint64_t>(channel_begin + i);
        const auto position = static_cast<uint64_t>(rows.position.at(t));
        const PhiloxBlock words = philox(0x1234567890abcdef, position << 32 | channel / 4,
                                         static_cast<uint64_t>(rows.sample.at(t)));
        const bool keeps = words[channel % 4] >= 0x40000000u;
        ASSERT_EQ(y[0].at(t, i), keeps ? static_cast<double>(1.0f / 0.75f) : 0.0) << t << " " << i;
      }
    }
  }
}

TEST(Dropout, DropsTheShareAskedFor) {
  const Rows rows(400);
  TestTensor x(DType::f32, Shape{400, 500});
  x.fill_constant(1);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  for (const float p : {0.001f, 0.1f, 0.5f, 0.9f}) {
    TestTensor y(DType::f32, Shape{400, 500});
    dropout_forward(exec, {x, y, rows.dropout(p)});
    double dropped = 0;
    for (int64_t i = 0; i < y.size(); ++i) dropped += y.at(i) == 0 ? 1 : 0;
    // Six standard deviations of a binomial of 200,000.
    const double share = static_cast<double>(p);
    EXPECT_NEAR(dropped, share * 2e5, 6 * std::sqrt(2e5 * share * (1 - share)));
  }
}

TEST(Dropout, SplitsOfColumnsAndRowsDrawTheSame) {
  const ElementwiseCase c = {29, 90};
  const Rows rows(c.rows);
  const TestTensor x = tensor(DType::f32, c).fill_normal(1);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor whole = tensor(DType::f32, c), parts = tensor(DType::f32, c);
  dropout_forward(exec, {x, whole, rows.dropout(0.3f)});
  const auto part = [&](int64_t row, int64_t row_count, int64_t column, int64_t column_count) {
    Dropout dropout = rows.dropout(0.3f, column);
    dropout.sample_T = dropout.sample_T.rows(row, row_count);
    dropout.position_T = dropout.position_T.rows(row, row_count);
    const ConstView from = x.view().rows(row, row_count).columns(column, column_count);
    const View to = parts.view().rows(row, row_count).columns(column, column_count);
    dropout_forward(exec, {from, to, dropout});
  };
  part(0, 11, 0, 37), part(0, 11, 37, 53), part(11, 18, 0, 66), part(11, 18, 66, 24);
  testing::expect_same_bits(parts, whole, "parts");
}

TEST(Dropout, FusedWithTheResidualEqualsTheComposition) {
  const ElementwiseCase c = {19, 131, 3, 1};
  const Rows rows(c.rows);
  for (const float p : {0.0f, 0.4f}) {
    const TestTensor x = tensor(DType::f32, c).fill_normal(1),
                     residual = tensor(DType::f32, c).fill_normal(2);
    const auto fused = [&](Exec& exec) {
      TestTensor y = tensor(DType::f32, c);
      residual_dropout_forward(exec, {x, residual, y, rows.dropout(p)});
      return Outputs{y};
    };
    const auto composed = [&](Exec& exec) {
      TestTensor y = tensor(DType::f32, c);
      dropout_forward(exec, {x, y, rows.dropout(p)});
      add(exec, residual, y, y);
      return Outputs{y};
    };
    testing::expect_same_bits(testing::run_everywhere(fused, "fused"),
                              testing::run_everywhere(composed, "composed"), "fused");
  }
}

TEST(Dropout, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  exec.only = "reference";
  const Shape shape{6, 11};
  const Rows rows(6);
  TestTensor x = TestTensor(DType::f64, shape).fill_normal(1);
  const TestTensor residual = TestTensor(DType::f64, shape).fill_normal(2),
                   dy = TestTensor(DType::f64, shape).fill_normal(3);
  TestTensor y(DType::f64, shape), dx(DType::f64, shape);
  residual_dropout_backward(exec, {dy, dx, rows.dropout(0.4f)});
  const auto loss = [&] {
    residual_dropout_forward(exec, {x, residual, y, rows.dropout(0.4f)});
    return testing::weighted_sum(y, dy);
  };
  testing::expect_gradient(loss, x, dx, 1e-10, "dx");
}

TEST(Dropout, DroppedNaNIsZeroAndKeptNaNIsNaN) {
  const Rows rows(3);
  TestTensor nan(DType::f32, Shape{3, 40}), ones(DType::f32, Shape{3, 40});
  nan.fill_constant(NAN);
  ones.fill_constant(1);
  const auto run = [&](Exec& exec) {
    TestTensor y(DType::f32, Shape{3, 40}), z(DType::f32, Shape{3, 40});
    dropout_forward(exec, {nan, y, rows.dropout(0.5f)});
    dropout_forward(exec, {ones, z, rows.dropout(0.5f)});
    return Outputs{y, z};
  };
  const Outputs y = testing::run_everywhere(run, "NaN");
  for (int64_t i = 0; i < 120; ++i) {
    if (y[1].at(i) == 0) {
      EXPECT_EQ(y[0].at(i), 0);
    } else {
      EXPECT_TRUE(std::isnan(y[0].at(i)));
    }
  }
}

TEST(Dropout, TraceCountsBytes) {
  TestTensor x(DType::f32, Shape{3, 4}), y(DType::f32, Shape{3, 4});
  const Rows rows(3);
  const auto work = testing::traced_work(
      [&](Exec& e) {
        residual_dropout_forward(e, {x, x, y, rows.dropout(0.5f)});
      },
      "residual_dropout_forward");
  EXPECT_EQ(work.bytes_read, 96);
  EXPECT_EQ(work.bytes_written, 48);
}

}  // namespace
}  // namespace megalith::kernels
