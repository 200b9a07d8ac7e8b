// SPDX-License-Identifier: Apache-2.0
// The second factor of products that are several of an adapter's modules (kernels/matmul/
// low_rank.h): packed b [P, O], in which a column has the rows of its own module, and b [R, O] with
// zeros elsewhere. Packed is what is kept; the products of backward read and make the other.
#pragma once

#include <span>
#include <vector>

#include "kernels/exec.h"
#include "tensor/shard.h"

namespace megalith::low_rank {

/// Columns begin, begin + step, ..., `count` of them, of one module: their `ranks` rows are the
/// rows of b from `first` on.
struct ColumnRun {
  int64_t begin = 0, count = 0, step = 1;
  int64_t first = 0, ranks = 0;
  friend bool operator==(const ColumnRun&, const ColumnRun&) = default;
};

/// `by_output`: of each column the rows of its module, or none. Neighbours are one run, and so are
/// columns of which every second one is of a module.
std::vector<ColumnRun> column_runs(std::span<const Range> by_output);
/// Those that a shard (of dimension 0) names, as they lie there.
std::vector<Range> outputs_of(std::span<const Range> by_output, const Shard& shard);

/// Overwrites b_RO. Both are contiguous and of one type. Local; queued.
void spread_columns(kernels::Exec& exec, ConstView packed_PO, View b_RO,
                    std::span<const ColumnRun> runs);
/// Overwrites the columns of packed_PO that runs have; the others are left alone.
void gather_columns(kernels::Exec& exec, ConstView b_RO, View packed_PO,
                    std::span<const ColumnRun> runs);

}  // namespace megalith::low_rank
