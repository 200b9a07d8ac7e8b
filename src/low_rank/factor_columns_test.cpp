// SPDX-License-Identifier: Apache-2.0
#include "low_rank/factor_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "device/device.h"
#include "kernels/elementwise/pointwise.h"

namespace megalith::low_rank {
namespace {

using ::testing::ElementsAre;

/// Modules side by side, in turns over all columns or over some, columns of none, and a module
/// whose neighbour in turn has none.
const std::vector<Range> kSideBySide = {{0, 2}, {0, 2}, {2, 4}, {2, 4}, {4, 6}, {0, 0}};
const std::vector<Range> kTurns = {{0, 3}, {3, 6}, {0, 3}, {3, 6}};
const std::vector<Range> kTurnsBehind = {{4, 6}, {0, 2}, {2, 4}, {0, 2}, {2, 4}, {0, 2}};
const std::vector<Range> kOneOfTwo = {{0, 0}, {3, 6}, {0, 0}, {3, 6}};

TEST(FactorColumns, AreRunsOfNeighboursOrOfEverySecond) {
  EXPECT_THAT(
      column_runs(kSideBySide),
      ElementsAre(ColumnRun{0, 2, 1, 0, 2}, ColumnRun{2, 2, 1, 2, 2}, ColumnRun{4, 1, 1, 4, 2}));
  EXPECT_THAT(column_runs(kTurns), ElementsAre(ColumnRun{0, 2, 2, 0, 3}, ColumnRun{1, 2, 2, 3, 3}));
  EXPECT_THAT(column_runs(kOneOfTwo), ElementsAre(ColumnRun{1, 2, 2, 3, 3}));
  EXPECT_THAT(column_runs(std::vector<Range>(5, Range{0, 4})),
              ElementsAre(ColumnRun{0, 5, 1, 0, 4}));
  EXPECT_TRUE(column_runs(std::vector<Range>(5)).empty());
  EXPECT_THAT(
      column_runs(outputs_of(kSideBySide, {0, 1, 2, 4, 1})),
      ElementsAre(ColumnRun{0, 1, 1, 0, 2}, ColumnRun{1, 1, 1, 2, 2}, ColumnRun{2, 1, 1, 4, 2}));
}

TEST(FactorColumns, SpreadAndGatherAreWhatRunsSay) {
  const auto device = device::make_cpu_device(1);
  kernels::Exec exec(*device);
  for (const auto& by_output : {kSideBySide, kTurns, kTurnsBehind, kOneOfTwo}) {
    const auto runs = column_runs(by_output);
    const int64_t outputs = std::ssize(by_output), rank = 6;
    int64_t packed = 0;
    for (const Range& own : by_output) packed = std::max(packed, own.size());
    // By the definition: row r of a column of packed b is row begin + r of its module in b.
    std::vector<float> b_PO(static_cast<size_t>(packed * outputs));
    std::vector<float> b_RO(static_cast<size_t>(rank * outputs));
    for (int64_t o = 0; o < outputs; ++o) {
      const Range own = by_output[static_cast<size_t>(o)];
      for (int64_t r = 0; r < own.size(); ++r) {
        const auto value = static_cast<float>(1 + o * 10 + r);
        b_PO[static_cast<size_t>(r * outputs + o)] = value;
        b_RO[static_cast<size_t>((own.begin + r) * outputs + o)] = value;
      }
    }
    device::Arena& arena = device->arena(device::MemoryClass::weights);
    const auto whole = arena.tensor(DType::f32, Shape{rank, outputs});
    const auto small = arena.tensor(DType::f32, Shape{packed, outputs});
    const auto read = [&](const device::Tensor& tensor) {
      std::vector<float> host(static_cast<size_t>(tensor.view.num_elements()));
      device->wait(device->copy_to_host(host.data(), tensor.view));
      return host;
    };
    device->wait(device->copy_to_device(small, b_PO.data()));
    kernels::fill(exec, whole, 7);
    spread_columns(exec, small, whole, runs);
    EXPECT_EQ(read(whole), b_RO);
    // What stands where the zeros were is not read.
    for (float& value : b_RO)
      if (value == 0) value = 99;
    device->wait(device->copy_to_device(whole, b_RO.data()));
    kernels::fill(exec, small, 0);
    gather_columns(exec, whole, small, runs);
    EXPECT_EQ(read(small), b_PO);
  }
}

}  // namespace
}  // namespace megalith::low_rank
