// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/widen_rows.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/pointwise.h"
#include "tensor/blocks.h"

namespace megalith::kernels {
namespace {

void widen_blocks(Exec& exec, const WidenRows& a) {
  const int64_t blocks = a.y_TI.size(1) / kBlockColumns;
  exec.device.pool().for_range(a.y_TI.size(0), 1, [&](Range range, int) {
    for (int64_t t = range.begin; t < range.end; ++t)
      for (int64_t block = 0; block < blocks; ++block)
        widen_block(a.w_OI, a.first + t, block, a.y_TI.row<float>(t) + block * kBlockColumns);
  });
}

constexpr Implementation<WidenRows> kList[] = {
    {"reference", [](const Exec&, const WidenRows&) { return std::string_view(); }, widen_blocks},
};

}  // namespace

void widen_rows(Exec& exec, const WidenRows& a) {
  const int64_t rows = a.y_TI.size(0);
  MEGA_CHECK(a.first >= 0 && a.first + rows <= a.w_OI.shape[0], "rows {} + {} of {}", a.first, rows,
             a.w_OI.shape);
  MEGA_CHECK_EQ(a.y_TI.size(1), a.w_OI.shape[1]);
  if (is_plain(a.w_OI.format)) return cast(exec, ConstView(a.w_OI).rows(a.first, rows), a.y_TI);
  MEGA_CHECK_EQ(a.y_TI.dtype(), DType::f32);
  const device::Work work{0, a.w_OI.view.bytes() * rows / a.w_OI.shape[0], a.y_TI.bytes()};
  run_chosen<WidenRows>(exec, "widen_rows", work, kList, a);
}

}  // namespace megalith::kernels
