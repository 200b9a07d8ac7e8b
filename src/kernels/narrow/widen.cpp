// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/widen.h"

#include "kernels/elementary/run_chosen.h"
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

void widen(Exec& exec, const Weight& w, View y_OI) {
  MEGA_CHECK(!is_plain(w.format), "{} has no blocks", w.format);
  const Shape stored = stored_shape(w.format, w.shape);
  MEGA_CHECK(w.view.dtype() == DType::u8 && w.view.shape() == stored && w.view.is_contiguous(),
             "a weight in {} is {} {}, not the tiles {}", w.format, w.view.dtype(), w.view.shape(),
             stored);
  MEGA_CHECK(y_OI.shape() == w.shape && is_narrow(y_OI.dtype()), "{} {} of a weight {}",
             y_OI.dtype(), y_OI.shape(), w.shape);
  run_chosen<Widen>(exec, "widen", {0, w.view.bytes(), y_OI.bytes()}, kWiden, {w, y_OI});
}

}  // namespace megalith::kernels
