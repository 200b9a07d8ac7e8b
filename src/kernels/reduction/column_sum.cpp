// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/column_sum.h"

#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<ColumnSum> kList[] = {
    {"simd",
     [](const Exec&, const ColumnSum& a) {
       return refuse_wide({a.dy_TO, a.db_PO});
     },
     column_sum_simd},
    {"reference", [](const Exec&, const ColumnSum&) { return std::string_view(); },
     column_sum_reference},
};

}  // namespace

void column_sum(Exec& exec, const ColumnSum& a) {
  MEGA_CHECK_EQ(a.dy_TO.shape().num_dims(), 2);
  a.shards.check();
  MEGA_CHECK(a.db_PO.shape() == Shape({a.shards.count, a.dy_TO.size(1)}),
             "{} for {} partials of {}", a.db_PO.shape(), a.shards.count, a.dy_TO.size(1));
  check_storage({a.dy_TO, a.x_TO, a.db_PO});
  MEGA_CHECK(!is_half(a.db_PO.dtype()));
  const bool has_factors = !a.x_TO.absent();
  if (has_factors) {
    check_same_shape(a.x_TO, a.dy_TO);
    MEGA_CHECK_EQ(a.x_TO.dtype(), a.dy_TO.dtype());
  }
  const device::Work work{(has_factors ? 2.0 : 1.0) * static_cast<double>(a.dy_TO.num_elements()),
                          a.dy_TO.bytes() + (has_factors ? a.x_TO.bytes() : 0) + a.db_PO.bytes(),
                          a.db_PO.bytes()};
  run_chosen<ColumnSum>(exec, "column_sum", work, kList, a);
}

void column_sum_reference(Exec&, const ColumnSum& a) {
  for (int64_t t = 0; t < a.dy_TO.size(0); ++t) {
    const int64_t partial = a.shards.partial_of(t);
    for (int64_t c = 0; c < a.dy_TO.size(1); ++c) {
      const double x = a.x_TO.absent() ? 1 : read_double(a.x_TO, t, c);
      write_double(a.db_PO, partial, c,
                   std::fma(read_double(a.dy_TO, t, c), x, read_double(a.db_PO, partial, c)));
    }
  }
}

}  // namespace megalith::kernels
