// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/tree_sum.h"

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<TreeSum> kList[] = {
    {"simd",
     [](const Exec&, const TreeSum& a) {
       return refuse_wide({a.x_PN, a.y_N});
     },
     tree_sum_simd},
    {"reference", [](const Exec&, const TreeSum&) { return std::string_view(); },
     tree_sum_reference},
};

double tree(const ConstView& x, int64_t lo, int64_t hi, int64_t column) {
  if (hi - lo == 1) return read_double(x, lo, column);
  const int64_t middle = tree_middle(lo, hi);
  return tree(x, lo, middle, column) + tree(x, middle, hi, column);
}

}  // namespace

void tree_sum(Exec& exec, const TreeSum& a) {
  MEGA_CHECK_GE(a.x_PN.shape().num_dims(), 1);
  const int64_t partials = a.x_PN.size(0);
  MEGA_CHECK(partials >= 1 && partials <= int64_t{1} << 20, "{} partials", partials);
  MEGA_CHECK_EQ(a.y_N.num_elements() * partials, a.x_PN.num_elements());
  MEGA_CHECK_EQ(a.x_PN.dtype(), a.y_N.dtype());
  MEGA_CHECK(a.y_N.dtype() == DType::f32 || a.y_N.dtype() == DType::f64);
  MEGA_CHECK(a.y_N.is_contiguous());
  MEGA_CHECK(!a.accumulate || a.y_N.data() != a.x_PN.data() || a.y_N.num_elements() == 0,
             "y is row 0 of x and would be added to itself");
  const device::Work work{static_cast<double>(a.x_PN.num_elements()),
                          a.x_PN.bytes() + (a.accumulate ? a.y_N.bytes() : 0), a.y_N.bytes()};
  run_chosen<TreeSum>(exec, "tree_sum", work, kList, a);
}

void tree_sum_reference(Exec&, const TreeSum& a) {
  const View y = as_one_row(a.y_N);
  for (int64_t c = 0; c < y.size(1); ++c) {
    const double sum = tree(a.x_PN, 0, a.x_PN.size(0), c);
    write_double(y, 0, c, a.accumulate ? read_double(y, 0, c) + sum : sum);
  }
}

}  // namespace megalith::kernels
