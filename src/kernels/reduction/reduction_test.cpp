// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/reduction/column_sum.h"
#include "kernels/reduction/norms.h"
#include "kernels/reduction/reduction_cases.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;
constexpr DType kNarrow[] = {DType::f32, DType::bf16, DType::f16};

Outputs sum_columns(Exec& exec, const ColumnSumCase& c, const TestTensor& dy,
                    int64_t rows_per_call) {
  TestTensor db(dy.dtype() == DType::f64 ? DType::f64 : DType::f32,
                Shape{c.shards.count, c.columns}, c.gap);
  db.fill_constant(0.125);
  for (int64_t t = 0; t < std::max<int64_t>(1, c.rows); t += rows_per_call) {
    TokenShards part = c.shards;
    part.first_row += t;
    column_sum(exec, {dy.view().rows(t, std::min(rows_per_call, c.rows - t)), db, part});
  }
  return {db};
}

TEST(ColumnSum, IsOneChainPerPartialHoweverRowsAreSplit) {
  for (const ColumnSumCase& c : kColumnSumCases) {
    for (const DType dtype : kNarrow) {
      const TestTensor dy = TestTensor(dtype, Shape{c.rows, c.columns}, c.gap, 1).fill_normal(1);
      const auto split = [&](int64_t rows) {
        return testing::run_everywhere([&](Exec& e) { return sum_columns(e, c, dy, rows); },
                                       fmt::format("{}x{}", c.rows, c.columns));
      };
      const Outputs whole = split(1000);
      for (const int64_t rows : {1, 6, 50}) testing::expect_same_bits(split(rows), whole, "split");
      for (int64_t i = 0; i < c.columns; ++i) {
        std::vector<float> chain(static_cast<size_t>(c.shards.count), 0.125f);
        for (int64_t t = 0; t < c.rows; ++t) {
          const int64_t shard = (c.shards.first_row + t) / c.shards.rows_per_shard % c.shards.count;
          chain[static_cast<size_t>(shard)] += static_cast<float>(dy.at(t, i));
        }
        for (int64_t p = 0; p < c.shards.count; ++p) {
          ASSERT_EQ(static_cast<float>(whole[0].at(p, i)), chain[static_cast<size_t>(p)]);
        }
      }
    }
  }
}

Outputs sum_products(Exec& exec, const ColumnSumCase& c, const TestTensor& dy, const TestTensor& x,
                     int64_t rows_per_call) {
  TestTensor db(dy.dtype() == DType::f64 ? DType::f64 : DType::f32,
                Shape{c.shards.count, c.columns}, c.gap);
  db.fill_constant(0.125);
  for (int64_t t = 0; t < std::max<int64_t>(1, c.rows); t += rows_per_call) {
    const int64_t count = std::min(rows_per_call, c.rows - t);
    TokenShards part = c.shards;
    part.first_row += t;
    column_sum(exec, {dy.view().rows(t, count), db, part, x.view().rows(t, count)});
  }
  return {db};
}

TEST(ColumnSum, OfProductsIsOneChainOfFusedMultiplyAdds) {
  for (const ColumnSumCase& c : kColumnSumCases) {
    for (const DType dtype : kNarrow) {
      const Shape shape{c.rows, c.columns};
      const TestTensor dy = TestTensor(dtype, shape, c.gap, 1).fill_normal(1),
                       x = TestTensor(dtype, shape, c.gap + 1, 2).fill_normal(2);
      const auto split = [&](int64_t rows) {
        return testing::run_everywhere([&](Exec& e) { return sum_products(e, c, dy, x, rows); },
                                       fmt::format("{}x{}", c.rows, c.columns));
      };
      const Outputs whole = split(1000);
      for (const int64_t rows : {1, 6, 50}) testing::expect_same_bits(split(rows), whole, "split");
      for (int64_t i = 0; i < c.columns; ++i) {
        std::vector<float> chain(static_cast<size_t>(c.shards.count), 0.125f);
        for (int64_t t = 0; t < c.rows; ++t) {
          const int64_t shard = (c.shards.first_row + t) / c.shards.rows_per_shard % c.shards.count;
          float& sum = chain[static_cast<size_t>(shard)];
          sum = std::fma(static_cast<float>(dy.at(t, i)), static_cast<float>(x.at(t, i)), sum);
        }
        for (int64_t p = 0; p < c.shards.count; ++p) {
          ASSERT_EQ(static_cast<float>(whole[0].at(p, i)), chain[static_cast<size_t>(p)]);
        }
      }
    }
  }
}

TEST(ColumnSum, OfProductsOfExactNumbersEqualsTheReference) {
  const ColumnSumCase c = {203, 71, {10, 3, 4}, 2};
  for (const DType dtype : kNarrow) {
    const Shape shape{c.rows, c.columns};
    const TestTensor dy = TestTensor(dtype, shape, c.gap).fill_integers(1, -100, 100),
                     x = TestTensor(dtype, shape, 3).fill_integers(2, -50, 50);
    const auto run = [&](Exec& e) { return sum_products(e, c, dy, x, 1000); };
    testing::expect_same_bits(testing::run_everywhere(run, "integers"), testing::run_reference(run),
                              "integers");
  }
}

TEST(ColumnSum, OfExactNumbersEqualsTheReference) {
  const ColumnSumCase c = {203, 71, {10, 3, 4}, 2};
  for (const DType dtype : kNarrow) {
    const TestTensor dy =
        TestTensor(dtype, Shape{c.rows, c.columns}, c.gap).fill_integers(1, -100, 100);
    const auto run = [&](Exec& e) { return sum_columns(e, c, dy, 1000); };
    testing::expect_same_bits(testing::run_everywhere(run, "integers"), testing::run_reference(run),
                              "integers");
  }
}

TEST(ColumnSum, KeepsNaNInItsColumnAndPartial) {
  TestTensor dy(DType::f32, Shape{8, 20});
  dy.fill_constant(1);
  dy.set(5, 19, NAN);
  const ColumnSumCase c = {8, 20, {4, 2, 0}};
  const Outputs db =
      testing::run_everywhere([&](Exec& e) { return sum_columns(e, c, dy, 8); }, "NaN");
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(db[0].at(i)), i == 39);
}

TEST(ColumnSum, RefusesTheWrongNumberOfPartialsAndOtherFactors) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor dy(DType::f32, Shape{8, 20}), db(DType::f32, Shape{1, 20});
  EXPECT_THROW(column_sum(exec, {dy, db, {4, 2, 0}}), InternalError);
  EXPECT_THROW(column_sum(exec, {dy, db, {}, TestTensor(DType::f32, Shape{8, 19})}), InternalError);
  EXPECT_THROW(column_sum(exec, {dy, db, {}, TestTensor(DType::bf16, Shape{8, 20})}),
               InternalError);
}

float tree(const TestTensor& x, int64_t lo, int64_t hi, int64_t column) {
  if (hi == lo + 1) return static_cast<float>(x.at(lo, column));
  const int64_t middle = lo + (hi - lo + 1) / 2;
  return tree(x, lo, middle, column) + tree(x, middle, hi, column);
}

TEST(TreeSum, IsTheBalancedTree) {
  for (const TreeSumCase& c : kTreeSumCases) {
    const TestTensor x =
        TestTensor(DType::f32, Shape{c.partials, c.columns}, c.gap, 1).fill_normal(1);
    for (const bool accumulate : {false, true}) {
      const auto run = [&](Exec& exec) {
        TestTensor y(DType::f32, Shape{c.columns}, 0, 3);
        y.fill_constant(0.3);
        tree_sum(exec, {x, y, accumulate});
        return Outputs{y};
      };
      const Outputs y = testing::run_everywhere(run, fmt::format("{}x{}", c.partials, c.columns));
      for (int64_t i = 0; i < c.columns; ++i) {
        const float sum = tree(x, 0, c.partials, i);
        ASSERT_EQ(static_cast<float>(y[0].at(i)), accumulate ? 0.3f + sum : sum);
      }
      const Outputs expected = testing::run_reference(run);
      testing::expect_close(
          y[0], expected[0],
          [&](int64_t i) {
            double size = 0.3;
            for (int64_t p = 0; p < c.partials; ++p) size += std::abs(x.at(p, i));
            return 0x1p-24 * 6 * size;  // depth of the tree at most 4, one more addition, storage
          },
          "reference");
    }
  }
}

TEST(TreeSum, ShardsOfThePartialsCombineToTheSameTree) {
  // Four partials on two ranks: each rank's tree over two, then the tree over the ranks.
  const TestTensor x = TestTensor(DType::f32, Shape{4, 100}).fill_normal(1);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor whole(DType::f32, Shape{100}), parts(DType::f32, Shape{2, 100}),
      combined(DType::f32, Shape{100});
  tree_sum(exec, {x, whole});
  for (int64_t rank = 0; rank < 2; ++rank) {
    tree_sum(exec, {x.view().rows(2 * rank, 2), parts.view().rows(rank, 1)});
  }
  tree_sum(exec, {parts, combined});
  testing::expect_same_bits(combined, whole, "ranks");
}

TEST(TreeSum, MayOverwriteItsFirstRow) {
  TestTensor x = TestTensor(DType::f32, Shape{5, 333}).fill_normal(1);
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  TestTensor y(DType::f32, Shape{333});
  tree_sum(exec, {x, y});
  tree_sum(exec, {x, x.view().rows(0, 1)});
  for (int64_t i = 0; i < 333; ++i) ASSERT_EQ(x.at(0, i), y.at(i));
}

TEST(SumOfSquares, RunsInSixteenLanesOfDoublePerBlock) {
  for (const int64_t n : kNormSizes) {
    for (const DType dtype : kNarrow) {
      const TestTensor x = TestTensor(dtype, Shape{n}, 0, 1).fill_normal(1);
      const auto run = [&](Exec& exec) {
        TestTensor partials(DType::f64, Shape{num_square_partials(n)});
        sum_of_squares(exec, {x, partials});
        return Outputs{partials};
      };
      const Outputs actual = testing::run_everywhere(run, fmt::format("{}", n));
      for (int64_t block = 0; block < num_square_partials(n); ++block) {
        double lane[16] = {};
        for (int64_t i = block * kSquaresBlock; i < std::min(n, (block + 1) * kSquaresBlock); ++i) {
          lane[i % 16] += x.at(i) * x.at(i);
        }
        for (int width = 8; width > 0; width /= 2) {
          for (int l = 0; l < width; ++l) lane[l] = lane[l] + lane[l + width];
        }
        ASSERT_EQ(actual[0].at(block), lane[0]);
      }
      const Outputs expected = testing::run_reference(run);
      testing::expect_close(
          actual[0], expected[0], [&](int64_t i) { return 0x1p-53 * 18000 * expected[0].at(i); },
          "reference");
    }
  }
}

TEST(OrderedSum, AddsFromLeftToRightAndCanGoOn) {
  const TestTensor x = TestTensor(DType::f64, Shape{1000}).fill_normal(1);
  const auto device = device::make_cpu_device(2);
  Exec exec(*device);
  TestTensor y(DType::f64, Shape{1}), z(DType::f64, Shape{1});
  ordered_sum(exec, {x, y});
  double chain = 0;
  for (int64_t i = 0; i < 1000; ++i) chain += x.at(i);
  EXPECT_EQ(y.at(0), chain);
  ordered_sum(exec, {x.view().rows(0, 400), z});
  ordered_sum(exec, {x.view().rows(400, 600), z, true});
  EXPECT_EQ(z.at(0), chain);
  ordered_sum(exec, {x.view().rows(0, 0), z});
  EXPECT_EQ(z.at(0), 0);
}

TEST(AllFinite, FindsOneAnywhere) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (const int64_t n : {0, 1, 33, 40000}) {
      TestTensor x = TestTensor(dtype, Shape{n}).fill_normal(1);
      const auto run = [&](Exec& exec) {
        TestTensor flag(DType::i32, Shape{1});
        all_finite(exec, {x, flag});
        return Outputs{flag};
      };
      EXPECT_EQ(testing::run_everywhere(run, "finite")[0].at(0), 1);
      for (const double wrong : {double{INFINITY}, -double{INFINITY}, double{NAN}}) {
        for (const int64_t i : {int64_t{0}, n / 2, n - 1}) {
          if (n == 0) continue;
          const double before = x.at(i);
          x.set(i, wrong);
          EXPECT_EQ(testing::run_everywhere(run, "wrong")[0].at(0), 0) << n << " " << i;
          EXPECT_EQ(testing::run_reference(run)[0].at(0), 0);
          x.set(i, before);
        }
      }
    }
  }
}

TEST(AllFinite, AccumulatesZero) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor good = TestTensor(DType::f32, Shape{5}).fill_normal(1), bad = good,
             flag(DType::i32, Shape{1});
  bad.set(3, NAN);
  all_finite(exec, {good, flag});
  all_finite(exec, {bad, flag, true});
  all_finite(exec, {good, flag, true});
  EXPECT_EQ(flag.at(0), 0);
  all_finite(exec, {good, flag});
  EXPECT_EQ(flag.at(0), 1);
}

TEST(AllFinite, WhatWeighsNothingDoesNotCount) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    TestTensor x = TestTensor(dtype, Shape{40}).fill_normal(1),
               weight = TestTensor(DType::f32, Shape{40}).fill_normal(2);
    const auto run = [&](Exec& exec) {
      TestTensor flag(DType::i32, Shape{1});
      all_finite(exec, {.x = x, .flag = flag, .weight = weight});
      return Outputs{flag};
    };
    x.set(20, NAN);
    EXPECT_EQ(testing::run_everywhere(run, "it counts")[0].at(0), 0);
    weight.set(20, 0);
    EXPECT_EQ(testing::run_everywhere(run, "it does not")[0].at(0), 1);
    EXPECT_EQ(testing::run_reference(run)[0].at(0), 1);
    x.set(39, INFINITY);
    EXPECT_EQ(testing::run_everywhere(run, "another counts")[0].at(0), 0);
  }
}

TEST(Reduction, TraceCountsBytes) {
  TestTensor x(DType::f32, Shape{2, 16}), y(DType::f32, Shape{16}), partial(DType::f64, Shape{1});
  EXPECT_EQ(testing::traced_work(
                [&](Exec& e) {
                  tree_sum(e, {x, y});
                },
                "tree_sum")
                .bytes_read,
            128);
  EXPECT_EQ(testing::traced_work(
                [&](Exec& e) {
                  sum_of_squares(e, {x, partial});
                },
                "sum_of_squares")
                .bytes_read,
            128);
  EXPECT_EQ(testing::traced_work(
                [&](Exec& e) {
                  column_sum(e, {x, y.view().reshape({1, 16}), {}});
                },
                "column_sum")
                .bytes_read,
            128 + 64);
}

}  // namespace
}  // namespace megalith::kernels
