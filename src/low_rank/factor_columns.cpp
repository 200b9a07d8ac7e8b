// SPDX-License-Identifier: Apache-2.0
#include "low_rank/factor_columns.h"

#include "kernels/elementwise/pointwise.h"

namespace megalith::low_rank {
namespace {

bool is_same(const Range& a, const Range& b) { return a.begin == b.begin && a.end == b.end; }

/// Every second column of some rows of a contiguous matrix, as one column.
template <typename AnyView>
AnyView every_second(const AnyView& matrix, int64_t row, const ColumnRun& run) {
  const int64_t pairs = run.ranks * matrix.size(1) / 2;
  return matrix.rows(row, run.ranks).reshape(Shape{pairs, 2}).columns(run.begin, 1);
}

/// Calls copy(columns of packed, those of b) for the parts of a run that a copy takes.
template <typename PackedView, typename WholeView, typename Copy>
void for_each_part(const PackedView& packed_PO, const WholeView& b_RO, const ColumnRun& run,
                   const Copy& copy) {
  if (run.step == 2 && run.begin < 2 && 2 * run.count == packed_PO.size(1))
    return copy(every_second(packed_PO, 0, run), every_second(b_RO, run.first, run));
  const int64_t width = run.step == 1 ? run.count : 1;
  for (int64_t i = 0; i < run.count; i += width) {
    const int64_t column = run.begin + i * run.step;
    copy(packed_PO.rows(0, run.ranks).columns(column, width),
         b_RO.rows(run.first, run.ranks).columns(column, width));
  }
}

}  // namespace

std::vector<ColumnRun> column_runs(std::span<const Range> by_output) {
  std::vector<ColumnRun> runs;
  std::vector<bool> taken(by_output.size());
  const auto count_from = [&](size_t begin, size_t step) {
    size_t at = begin;
    while (at < by_output.size() && !taken[at] && is_same(by_output[at], by_output[begin]))
      at += step;
    return (at - begin) / step;
  };
  for (size_t begin = 0; begin < by_output.size(); ++begin) {
    const Range own = by_output[begin];
    if (own.empty() || taken[begin]) continue;
    const size_t neighbours = count_from(begin, 1);
    const size_t step = neighbours == 1 && count_from(begin, 2) > 1 ? 2 : 1;
    const size_t count = step == 1 ? neighbours : count_from(begin, 2);
    for (size_t i = 0; i < count; ++i) taken[begin + i * step] = true;
    runs.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(count),
                    static_cast<int64_t>(step), own.begin, own.size()});
  }
  return runs;
}

std::vector<Range> outputs_of(std::span<const Range> by_output, const Shard& shard) {
  std::vector<Range> held;
  for (const ShardRun& run : shard.runs()) {
    const auto own =
        by_output.subspan(static_cast<size_t>(run.begin), static_cast<size_t>(run.count));
    held.insert(held.end(), own.begin(), own.end());
  }
  return held;
}

void spread_columns(kernels::Exec& exec, ConstView packed_PO, View b_RO,
                    std::span<const ColumnRun> runs) {
  kernels::fill(exec, b_RO, 0);
  for (const ColumnRun& run : runs)
    for_each_part(packed_PO, b_RO, run, [&](const ConstView& packed, const View& whole) {
      exec.device.copy(whole, packed);
    });
}

void gather_columns(kernels::Exec& exec, ConstView b_RO, View packed_PO,
                    std::span<const ColumnRun> runs) {
  for (const ColumnRun& run : runs)
    for_each_part(packed_PO, b_RO, run, [&](const View& packed, const ConstView& whole) {
      exec.device.copy(packed, whole);
    });
}

}  // namespace megalith::low_rank
