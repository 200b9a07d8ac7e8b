// SPDX-License-Identifier: Apache-2.0
#include "low_rank/row_norms.h"

#include <algorithm>

#include "kernels/matmul/linear.h"
#include "kernels/narrow/widen.h"
#include "kernels/reduction/row_norms.h"
#include "parallel/regions.h"

namespace megalith::low_rank {
namespace {

/// Rows that are widened at once: a megabyte in f32, but no fewer than 16.
int64_t rows_at_once(const Shape& weight) {
  constexpr int64_t kElements = 1 << 18, kLeast = 16;
  return std::min(weight[0], std::max(kLeast, kElements / std::max<int64_t>(1, weight[1])));
}

}  // namespace

void row_norms(kernels::Exec& exec, comm::Communicator& tensor, const RowNorms& r,
               std::string_view label) {
  const int64_t outputs = r.w_OI.shape[0], step = rows_at_once(r.w_OI.shape);
  MEGA_CHECK_EQ(r.n_O.num_elements(), outputs);
  const device::Tensor room = exec.workspace.tensor(r.n_O.dtype(), Shape{step, r.w_OI.shape[1]});
  for (int64_t begin = 0; begin < outputs; begin += step) {
    const int64_t count = std::min(step, outputs - begin);
    const View rows = room.view.rows(0, count);
    kernels::widen(exec, r.w_OI, rows, begin);
    if (!r.b_RO.absent()) {
      kernels::linear_backward_weight(exec, {r.b_RO.columns(begin, count), r.a_RI, rows, {}, {}});
    }
    kernels::row_squares(exec, {rows, r.n_O.rows(begin, count), r.k_shards});
  }
  if (r.sums && tensor.size() > 1) parallel::reduce_forward(exec, tensor, r.n_O, label);
  kernels::square_roots(exec, r.n_O);
}

}  // namespace megalith::low_rank
