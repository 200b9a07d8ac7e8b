// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/widen.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/narrow/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<Widen> kWiden[] = {
    {"simd",
     [](const Exec&, const Widen& a) {
       return std::string_view(a.w_OI.format == Format::fp8 ? "takes scales of blocks only" : "");
     },
     widen_simd},
    {"reference", [](const Exec&, const Widen&) { return std::string_view(); }, widen_reference},
};

}  // namespace

void widen(Exec& exec, const Weight& w, View y_TI, int64_t first) {
  const int64_t rows = y_TI.size(0);
  MEGA_CHECK(first >= 0 && first + rows <= w.shape[0] && y_TI.size(1) == w.shape[1],
             "{} from row {} of a weight {}", y_TI.shape(), first, w.shape);
  if (is_plain(w.format)) return cast(exec, ConstView(w).rows(first, rows), y_TI);
  const Shape stored = stored_shape(w.format, w.shape);
  MEGA_CHECK(w.view.dtype() == DType::u8 && w.view.shape() == stored && w.view.is_contiguous(),
             "a weight in {} is {} {}, not the tiles {}", w.format, w.view.dtype(), w.view.shape(),
             stored);
  MEGA_CHECK(is_narrow(y_TI.dtype()), "{} of a weight in blocks", y_TI.dtype());
  const device::Work work{0, w.view.bytes() * rows / w.shape[0], y_TI.bytes()};
  run_chosen<Widen>(exec, "widen", work, kWiden, {w, y_TI, first});
}

}  // namespace megalith::kernels
