// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/norms.h"

#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<SumOfSquares> kSquares[] = {
    {"simd", [](const Exec&, const SumOfSquares& a) { return refuse_wide({a.x}); },
     sum_of_squares_simd},
    {"reference", [](const Exec&, const SumOfSquares&) { return std::string_view(); },
     sum_of_squares_reference},
};
std::string_view refuse_all_finite(const Exec&, const AllFinite& a) {
  if (!a.weight.absent() && a.x.dtype() != DType::f32) return "weights go with f32";
  return refuse_wide({a.x});
}
constexpr Implementation<OrderedSum> kOrdered[] = {
    {"reference", [](const Exec&, const OrderedSum&) { return std::string_view(); },
     ordered_sum_reference},
};
constexpr Implementation<AllFinite> kFinite[] = {
    {"simd", refuse_all_finite, all_finite_simd},
    {"reference", [](const Exec&, const AllFinite&) { return std::string_view(); },
     all_finite_reference},
};

}  // namespace

void sum_of_squares(Exec& exec, const SumOfSquares& a) {
  check_storage({a.x});
  MEGA_CHECK(a.x.is_contiguous());
  check_vector(a.partials, DType::f64, num_square_partials(a.x.num_elements()));
  const device::Work work{2 * static_cast<double>(a.x.num_elements()), a.x.bytes(),
                          a.partials.bytes()};
  run_chosen<SumOfSquares>(exec, "sum_of_squares", work, kSquares, a);
}

void sum_of_squares_reference(Exec&, const SumOfSquares& a) {
  const ConstView x = as_one_row(a.x);
  for (int64_t block = 0; block < a.partials.num_elements(); ++block) {
    const int64_t begin = block * kSquaresBlock, end = std::min(x.size(1), begin + kSquaresBlock);
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += read_double(x, 0, i) * read_double(x, 0, i);
    a.partials.as<double>()[block] = sum;
  }
}

void ordered_sum(Exec& exec, const OrderedSum& a) {
  check_vector(a.x, DType::f64, a.x.num_elements());
  check_vector(a.y, DType::f64, 1);
  const device::Work work{static_cast<double>(a.x.num_elements()), a.x.bytes(), a.y.bytes()};
  run_chosen<OrderedSum>(exec, "ordered_sum", work, kOrdered, a);
}

void ordered_sum_reference(Exec&, const OrderedSum& a) {
  double& sum = *a.y.as<double>();
  if (!a.accumulate) sum = 0;
  const double* x = a.x.as<double>();
  for (int64_t i = 0; i < a.x.num_elements(); ++i) sum += x[i];
}

void all_finite(Exec& exec, const AllFinite& a) {
  check_storage({a.x});
  MEGA_CHECK(a.x.is_contiguous());
  check_vector(a.flag, DType::i32, 1);
  if (!a.weight.absent()) check_vector(a.weight, DType::f32, a.x.num_elements());
  run_chosen<AllFinite>(exec, "all_finite", {0, a.x.bytes(), a.flag.bytes()}, kFinite, a);
}

void all_finite_reference(Exec&, const AllFinite& a) {
  const ConstView x = as_one_row(a.x);
  bool finite = !a.accumulate || *a.flag.as<int32_t>() != 0;
  for (int64_t i = 0; i < x.size(1); ++i) {
    const bool counts = a.weight.absent() || a.weight.as<float>()[i] != 0;
    finite = finite && (!counts || std::isfinite(read_double(x, 0, i)));
  }
  *a.flag.as<int32_t>() = finite ? 1 : 0;
}

}  // namespace megalith::kernels
