// SPDX-License-Identifier: Apache-2.0
// Runs of rows with factors of their own: bits are those of linear_forward and an addition, for
// each run alone, on all instruction sets and threads; near the reference; rows without a run stay.
#include "kernels/matmul/low_rank.h"

#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

struct RunCase {
  int64_t begin, count, rank;
  std::vector<LowRankBlock> blocks = {};
  /// Rows of b as it is kept.
  int64_t packed() const {
    int64_t most = 0;
    for (const LowRankBlock& block : blocks) most = std::max(most, block.ranks);
    return blocks.empty() ? rank : most;
  }
};
struct LowRankCase {
  int64_t rows, inputs, outputs;
  int k_shards;
  std::vector<RunCase> runs;
};

/// One row and many; ranks below, at and beyond a vector; blocks of rows with and without a rest;
/// rows without a run; as many runs as a call takes; shards, also such as are no power of two.
std::vector<LowRankCase> low_rank_cases() {
  std::vector<LowRankCase> cases = {{1, 64, 48, 1, {{0, 1, 8}}},
                                    {1, 67, 131, 1, {{0, 1, 1}}},
                                    {9, 33, 7, 1, {{0, 9, 5}}},
                                    {30, 96, 300, 3, {{0, 8, 16}, {9, 1, 4}, {10, 20, 33}}},
                                    {12, 80, 513, 8, {{2, 3, 64}, {5, 0, 9}, {5, 7, 17}}},
                                    {5, 6, 2, 2, {}}};
  // Packed: pieces side by side, the last with fewer rows; columns of none; pieces in turns, cut at
  // odd columns.
  const std::vector<LowRankBlock> beside = {
      {{0, 100}, {0, 0}, 8}, {{100, 133}, {8, 8}, 8}, {{133, 600}, {16, 16}, 3}};
  const std::vector<LowRankBlock> holes = {{{5, 40}, {2, 2}, 1}, {{300, 301}, {0, 0}, 4}};
  const std::vector<LowRankBlock> turns = {{{1, 530}, {0, 5}, 5}, {{530, 599}, {3, 1}, 6}};
  cases.push_back({12, 40, 600, 2, {{0, 9, 19, beside}, {9, 1, 4, holes}, {10, 2, 10, turns}}});
  LowRankCase many{16, 128, 272, 4, {}};
  for (int64_t i = 0; i < 16; ++i) many.runs.push_back({i, 1, 1 + i});
  cases.push_back(many);
  return cases;
}

/// Operands of a case: factors as low_rank.h has them.
struct Operands {
  Operands(const LowRankCase& c, DType dtype)
      : x(TestTensor(dtype, Shape{c.rows, c.inputs}, 3, 1).fill_normal(1)),
        y(TestTensor(dtype, Shape{c.rows, c.outputs}, 5, 1).fill_normal(2)) {
    for (const RunCase& run : c.runs) {
      const uint64_t seed = 10 + a.size();
      a.push_back(TestTensor(DType::f32, Shape{c.inputs, run.rank}).fill_normal(seed));
      b.push_back(TestTensor(DType::f32, Shape{run.packed(), c.outputs}).fill_normal(seed + 50));
      h_elements += run.count * run.rank;
    }
  }
  LowRankRuns runs(const LowRankCase& c, const std::vector<TestTensor>& factors) const {
    LowRankRuns made;
    int64_t first = 0;
    for (const RunCase& run : c.runs) {
      made.run[made.count] = {run.begin, run.count,           first,
                              run.rank,  factors[made.count], run.blocks};
      ++made.count;
      first += run.count * run.rank;
    }
    return made;
  }
  TestTensor x, y;
  std::vector<TestTensor> a, b;
  int64_t h_elements = 0;
};

Outputs low_rank(Exec& exec, const LowRankCase& c, const Operands& operands) {
  TestTensor h(DType::f32, Shape{operands.h_elements}), y = operands.y;
  low_rank_project(exec, {operands.x, h, operands.runs(c, operands.a), c.k_shards});
  low_rank_add(exec, {h, y, operands.runs(c, operands.b)});
  return {h, y};
}

TestTensor transposed(const TestTensor& of) {
  TestTensor to(of.dtype(), Shape{of.columns(), of.rows()});
  for (int64_t row = 0; row < of.rows(); ++row)
    for (int64_t column = 0; column < of.columns(); ++column)
      to.set(column, row, of.at(row, column));
  return to;
}

/// b with its zeros.
TestTensor unpacked(const RunCase& run, const TestTensor& b) {
  if (run.blocks.empty()) return b;
  TestTensor whole(DType::f32, Shape{run.rank, b.columns()});
  whole.fill([](int64_t) { return 0.0; });
  for (const auto& [columns, first, ranks] : run.blocks)
    for (int64_t o = columns.begin; o < columns.end; ++o)
      for (int64_t r = 0; r < ranks; ++r)
        whole.set(first[static_cast<size_t>(o - columns.begin) % 2] + r, o, b.at(r, o));
  return whole;
}

/// Each run by itself, with the products that all layers have.
Outputs by_products(Exec& exec, const LowRankCase& c, const Operands& operands) {
  TestTensor all(DType::f32, Shape{operands.h_elements}), y = operands.y;
  int64_t first = 0;
  for (size_t n = 0; n < c.runs.size(); ++n) {
    const auto& [begin, count, rank, blocks] = c.runs[n];
    TestTensor h(DType::f32, Shape{count, rank}), delta(DType::f32, Shape{count, c.outputs});
    const TestTensor a = transposed(operands.a[n]),
                     b = transposed(unpacked(c.runs[n], operands.b[n]));
    linear_forward(exec, {.x_TI = operands.x.view().rows(begin, count),
                          .w_OI = a.view(),
                          .y_TO = h,
                          .k_shards = c.k_shards});
    linear_forward(exec, {.x_TI = h.view(), .w_OI = b.view(), .y_TO = delta});
    const View mine = y.view().rows(begin, count);
    add(exec, mine, delta, mine);
    for (int64_t i = 0; i < h.size(); ++i) all.set(first + i, h.at(i));
    first += count * rank;
  }
  return {all, y};
}

TEST(LowRank, HasTheBitsOfProductsOnAllThreadsAndInstructionSets) {
  for (const LowRankCase& c : low_rank_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Operands operands(c, dtype);
      const std::string what = fmt::format("{} rows, {} runs", c.rows, c.runs.size());
      const auto run = [&](Exec& exec) { return low_rank(exec, c, operands); };
      const Outputs actual = testing::run_everywhere(run, what);
      const auto device = device::make_cpu_device(2);
      Exec exec(*device);
      testing::expect_same_bits(actual, by_products(exec, c, operands), what);
    }
  }
}

/// A sum of n products, each rounding within u of the sum of absolute values.
TEST(LowRank, IsTheReferenceWithinItsBound) {
  for (const LowRankCase& c : low_rank_cases()) {
    const Operands operands(c, DType::f32);
    const auto run = [&](Exec& exec) { return low_rank(exec, c, operands); };
    const Outputs actual = testing::run_everywhere(run, "f32"),
                  expected = testing::run_reference(run);
    Operands magnitudes = operands;
    const auto make_positive = [](TestTensor& tensor) {
      const TestTensor before = tensor;
      tensor.fill([&](int64_t i) { return std::abs(before.at(i)); });
    };
    make_positive(magnitudes.x);
    make_positive(magnitudes.y);
    for (TestTensor& factor : magnitudes.a) make_positive(factor);
    for (TestTensor& factor : magnitudes.b) make_positive(factor);
    const Outputs scale =
        testing::run_reference([&](Exec& exec) { return low_rank(exec, c, magnitudes); });
    const double inputs = static_cast<double>(c.inputs) + c.k_shards + 1;
    const auto within = [&](size_t output, double terms) {
      testing::expect_close(
          actual[output], expected[output],
          [&](int64_t i) { return 1.01 * terms * 0x1p-24 * scale[output].at(i); }, "bound");
    };
    within(0, inputs);
    within(1, inputs + 64 + 3);
  }
}

TEST(LowRank, LeavesRowsWithoutARunAlone) {
  const LowRankCase c = low_rank_cases()[4];  // rows 0, 1 have none
  const Operands operands(c, DType::bf16);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const Outputs outputs = low_rank(exec, c, operands);
  for (int64_t row = 0; row < c.rows; ++row) {
    bool same = true;
    for (int64_t o = 0; o < c.outputs; ++o) same &= outputs[1].at(row, o) == operands.y.at(row, o);
    EXPECT_EQ(same, row < 2) << row;
  }
}

TEST(LowRank, IsTracedWithoutScratch) {
  const LowRankCase c = low_rank_cases()[3];
  const Operands operands(c, DType::f32);
  TestTensor h(DType::f32, Shape{operands.h_elements}), y = operands.y;
  double rank_rows = 0;
  for (const RunCase& run : c.runs) rank_rows += static_cast<double>(run.count * run.rank);
  const device::Work project = testing::traced_work(
      [&](Exec& exec) {
        low_rank_project(exec, {operands.x, h, operands.runs(c, operands.a), c.k_shards});
      },
      "low_rank_project");
  EXPECT_EQ(project.flops, 2 * rank_rows * static_cast<double>(c.inputs));
  const device::Work added = testing::traced_work(
      [&](Exec& exec) {
        low_rank_add(exec, {h, y, operands.runs(c, operands.b)});
      },
      "low_rank_add");
  EXPECT_EQ(added.flops, 2 * rank_rows * static_cast<double>(c.outputs));
}

TEST(LowRank, IsTracedWithoutItsZeros) {
  LowRankCase c{3, 8, 64, 1, {{1, 2, 8, {{{0, 32}, {0, 4}, 4}, {{40, 64}, {4, 4}, 2}}}}};
  const Operands operands(c, DType::f32);
  TestTensor h(DType::f32, Shape{operands.h_elements}), y = operands.y;
  const device::Work added = testing::traced_work(
      [&](Exec& exec) {
        low_rank_add(exec, {h, y, operands.runs(c, operands.b)});
      },
      "low_rank_add");
  EXPECT_EQ(added.flops, 2 * 2 * (32 * 4 + 24 * 2));
  EXPECT_EQ(added.bytes_read, 4 * (32 * 4 + 24 * 2 + 2 * 64 + 2 * 8));
}

}  // namespace
}  // namespace megalith::kernels
