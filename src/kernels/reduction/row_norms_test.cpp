// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/row_norms.h"

#include <gtest/gtest.h>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

struct RowsCase {
  int64_t rows, columns;
  int k_shards = 1;
};
constexpr RowsCase kRowsCases[] = {{0, 5},       {1, 1},      {7, 17},      {3, 96, 4},
                                   {40, 257, 1}, {9, 60, 12}, {5, 1000, 8}, {2, 33000}};

Outputs squares(Exec& exec, const RowsCase& c, const TestTensor& x) {
  TestTensor y(x.dtype() == DType::f64 ? DType::f64 : DType::f32, Shape{c.rows});
  row_squares(exec, {x, y, c.k_shards});
  return {y};
}

/// Rounded to f32, of one shard of a row.
float shard(const TestTensor& x, int64_t t, int64_t begin, int64_t end) {
  double lane[16] = {};
  for (int64_t i = begin; i < end; ++i)
    lane[(i - begin) % 16] = std::fma(x.at(t, i), x.at(t, i), lane[(i - begin) % 16]);
  for (int width = 8; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return static_cast<float>(lane[0]);
}
float tree(const TestTensor& x, int64_t t, int64_t width, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return shard(x, t, lo * width, hi * width);
  const int64_t middle = tree_middle(lo, hi);
  return tree(x, t, width, lo, middle) + tree(x, t, width, middle, hi);
}

TEST(RowNorms, SquaresAreLanesInATreeOfShards) {
  for (const RowsCase& c : kRowsCases) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const TestTensor x = TestTensor(dtype, Shape{c.rows, c.columns}, 3, 1).fill_normal(1);
      const Outputs y = testing::run_everywhere([&](Exec& e) { return squares(e, c, x); },
                                                fmt::format("{}x{}", c.rows, c.columns));
      for (int64_t t = 0; t < c.rows; ++t) {
        ASSERT_EQ(static_cast<float>(y[0].at(t)), tree(x, t, c.columns / c.k_shards, 0, c.k_shards))
            << t;
      }
    }
  }
}

// Which the reference alone takes: it sums a shard in order. Small whole numbers have exact sums in
// f64, and those of the larger ones no f32 has.
TEST(RowNorms, OfDoublesAreDoubles) {
  const RowsCase c{3, 12, 4};
  const TestTensor x = TestTensor(DType::f64, Shape{c.rows, c.columns}, 3, 1).fill([](int64_t i) {
    return 4097.0 + static_cast<double>(i);
  });
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const Outputs y = squares(exec, c, x);
  ASSERT_EQ(y[0].dtype(), DType::f64);
  for (int64_t t = 0; t < c.rows; ++t) {
    double sum = 0;
    for (int64_t i = 0; i < c.columns; ++i) sum += x.at(t, i) * x.at(t, i);
    EXPECT_EQ(y[0].at(t), sum) << t;
    EXPECT_NE(sum, static_cast<double>(static_cast<float>(sum))) << t;
  }
}

// What ranks have of a row, summed in the tree, is what one rank has.
TEST(RowNorms, ShardsMayLieOnSeveralRanks) {
  constexpr int64_t kRows = 6, kColumns = 160;
  const TestTensor x = TestTensor(DType::f32, Shape{kRows, kColumns}).fill_normal(1);
  const Outputs whole = testing::run_everywhere(
      [&](Exec& e) {
        return squares(e, {kRows, kColumns, 8}, x);
      },
      "one");
  const Outputs summed = testing::run_everywhere(
      [&](Exec& exec) {
        TestTensor parts(DType::f32, Shape{4, kRows}), y(DType::f32, Shape{kRows});
        for (int64_t rank = 0; rank < 4; ++rank) {
          row_squares(exec, {x.view().columns(rank * kColumns / 4, kColumns / 4),
                             parts.view().rows(rank, 1).reshape(Shape{kRows}), 2});
        }
        tree_sum(exec, {parts, y});
        return Outputs{y};
      },
      "four");
  testing::expect_same_bits(summed, whole, "of four ranks");
}

TEST(RowNorms, RootsAndQuotientsRoundOnce) {
  constexpr int64_t kCount = 300;
  const TestTensor a = TestTensor(DType::f32, Shape{kCount}).fill([](int64_t i) {
    return std::abs(normal(1, static_cast<uint64_t>(i)));
  });
  TestTensor b = TestTensor(DType::f32, Shape{kCount}).fill_normal(2);
  b.set(7, 0);
  TestTensor root = a, quotient(DType::f32, Shape{kCount});
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  square_roots(exec, root);
  divide(exec, a, b, quotient);
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(a.at(i)), y = static_cast<float>(b.at(i));
    EXPECT_EQ(static_cast<float>(root.at(i)), std::sqrt(x)) << i;
    EXPECT_EQ(static_cast<float>(quotient.at(i)), i == 7 ? 0 : x / y) << i;
  }
}

TEST(RowNorms, AreCounted) {
  const RowsCase c{4, 60, 3};
  const TestTensor x(DType::bf16, Shape{c.rows, c.columns});
  testing::traced_work([&](Exec& exec) { squares(exec, c, x); }, "row_squares");
  TestTensor y(DType::f64, Shape{5});
  testing::traced_work([&](Exec& exec) { square_roots(exec, y); }, "square_roots");
  testing::traced_work([&](Exec& exec) { divide(exec, y, y, y); }, "divide");
}

}  // namespace
}  // namespace megalith::kernels
