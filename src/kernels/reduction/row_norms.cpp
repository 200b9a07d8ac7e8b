// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/row_norms.h"

#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<RowSquares> kSquares[] = {
    {"simd", [](const Exec&, const RowSquares& a) { return refuse_wide({a.x_TI}); },
     row_squares_simd},
    {"reference", [](const Exec&, const RowSquares&) { return std::string_view(); },
     row_squares_reference},
};

/// y = f(a, b) or f(a), element by element. A square root or quotient in double, rounded to float,
/// is the correctly rounded float result.
struct Norms {
  ConstView a, b;
  View y;
};
void root_all(Exec&, const Norms& n) {
  const ConstView a = as_one_row(n.a);
  for (int64_t i = 0; i < a.size(1); ++i)
    write_double(as_one_row(n.y), 0, i, std::sqrt(read_double(a, 0, i)));
}
void divide_all(Exec&, const Norms& n) {
  const ConstView a = as_one_row(n.a), b = as_one_row(n.b);
  for (int64_t i = 0; i < a.size(1); ++i) {
    const double by = read_double(b, 0, i);
    write_double(as_one_row(n.y), 0, i, by == 0 ? 0 : read_double(a, 0, i) / by);
  }
}

std::string_view refuse_nothing(const Exec&, const Norms&) { return {}; }
constexpr Implementation<Norms> kRoots[] = {{"reference", refuse_nothing, root_all}};
constexpr Implementation<Norms> kQuotients[] = {{"reference", refuse_nothing, divide_all}};

void check_numbers(const View& y) {
  MEGA_CHECK(y.dtype() == DType::f32 || y.dtype() == DType::f64, "norms in {}", y.dtype());
  MEGA_CHECK(y.is_contiguous());
}

double tree(const RowSquares& a, int64_t t, int64_t lo, int64_t hi) {
  if (hi - lo > 1) {
    const int64_t middle = tree_middle(lo, hi);
    return tree(a, t, lo, middle) + tree(a, t, middle, hi);
  }
  const int64_t width = a.x_TI.size(1) / a.k_shards;
  double sum = 0;
  for (int64_t i = lo * width; i < hi * width; ++i)
    sum += read_double(a.x_TI, t, i) * read_double(a.x_TI, t, i);
  return sum;
}

}  // namespace

void row_squares(Exec& exec, const RowSquares& a) {
  MEGA_CHECK_EQ(a.x_TI.shape().num_dims(), 2);
  check_storage({a.x_TI, a.y_T});
  check_vector(a.y_T, a.x_TI.dtype() == DType::f64 ? DType::f64 : DType::f32, a.x_TI.size(0));
  MEGA_CHECK(a.k_shards >= 1 && a.x_TI.size(1) % a.k_shards == 0, "{} shards of {}", a.k_shards,
             a.x_TI.size(1));
  const device::Work work{2 * static_cast<double>(a.x_TI.num_elements()), a.x_TI.bytes(),
                          a.y_T.bytes()};
  run_chosen<RowSquares>(exec, "row_squares", work, kSquares, a);
}

void row_squares_reference(Exec&, const RowSquares& a) {
  const View y = as_one_row(a.y_T);
  for (int64_t t = 0; t < a.x_TI.size(0); ++t) write_double(y, 0, t, tree(a, t, 0, a.k_shards));
}

void square_roots(Exec& exec, View x) {
  check_numbers(x);
  const device::Work work{static_cast<double>(x.num_elements()), x.bytes(), x.bytes()};
  run_chosen<Norms>(exec, "square_roots", work, kRoots, {x, {}, x});
}

void divide(Exec& exec, ConstView a, ConstView b, View y) {
  check_numbers(y);
  check_vector(a, y.dtype(), y.num_elements());
  check_vector(b, y.dtype(), y.num_elements());
  const device::Work work{static_cast<double>(y.num_elements()), a.bytes() + b.bytes(), y.bytes()};
  run_chosen<Norms>(exec, "divide", work, kQuotients, {a, b, y});
}

}  // namespace megalith::kernels
