// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/pointwise.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<Cast> kCast[] = {
    {"simd",
     [](const Exec&, const Cast& a) {
       return refuse_wide({a.x, a.y});
     },
     cast_simd},
    {"reference", [](const Exec&, const Cast&) { return std::string_view(); }, cast_reference},
};
constexpr Implementation<Scale> kScale[] = {
    {"simd", [](const Exec&, const Scale& a) { return refuse_wide({a.x}); }, scale_simd},
    {"reference", [](const Exec&, const Scale&) { return std::string_view(); }, scale_reference},
};
constexpr Implementation<Softcap> kSoftcap[] = {
    {"simd", [](const Exec&, const Softcap& a) { return refuse_wide({a.x}); }, softcap_simd},
    {"reference", [](const Exec&, const Softcap&) { return std::string_view(); },
     softcap_reference},
};
constexpr Implementation<SoftcapBackward> kSoftcapBackward[] = {
    {"simd",
     [](const Exec&, const SoftcapBackward& a) {
       return refuse_wide({a.dy, a.y, a.dx});
     },
     softcap_backward_simd},
    {"reference", [](const Exec&, const SoftcapBackward&) { return std::string_view(); },
     softcap_backward_reference},
};
constexpr Implementation<Add> kAdd[] = {
    {"simd",
     [](const Exec&, const Add& a) {
       return refuse_wide({a.a, a.b, a.y});
     },
     add_simd},
    {"reference", [](const Exec&, const Add&) { return std::string_view(); }, add_reference},
};

constexpr Implementation<Fill> kFill[] = {
    {"rows", [](const Exec&, const Fill&) { return std::string_view(); }, fill_rows},
};

template <typename T>
void fill_with(Exec& exec, const View& y, T value) {
  const View matrix = y.is_contiguous() ? as_one_row(y) : as_matrix(y);
  for_pieces(exec, matrix.size(0), matrix.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    T* out = matrix.row<T>(row);
    std::fill(out + begin, out + end, value);
  });
}

void run_scale(Exec& exec, const Scale& arguments) {
  check_storage({arguments.x});
  const device::Work work{static_cast<double>(arguments.x.num_elements()), arguments.x.bytes(),
                          arguments.x.bytes()};
  run_chosen<Scale>(exec, "scale", work, kScale, arguments);
}

}  // namespace

void cast(Exec& exec, ConstView x, View y) {
  check_same_shape(x, y);
  for (const DType dtype : {x.dtype(), y.dtype()}) {
    MEGA_CHECK(dtype == DType::f64 || is_narrow(dtype), "cast between {} and {}", x.dtype(),
               y.dtype());
  }
  run_chosen<Cast>(exec, "cast", {0, x.bytes(), y.bytes()}, kCast, {x, y});
}

void scale(Exec& exec, View x, float factor) { run_scale(exec, {x, {}, factor}); }
void scale(Exec& exec, View x, ConstView factor) {
  MEGA_CHECK(factor.num_elements() == 1 || factor.shape() == Shape{as_matrix(x).size(1)},
             "factors {} of {}", factor.shape(), x.shape());
  MEGA_CHECK(factor.dtype() == DType::f32 ||
             (factor.dtype() == DType::f64 && x.dtype() == DType::f64));
  run_scale(exec, {x, factor, 1});
}

void softcap(Exec& exec, View x, float scale, float cap) {
  check_storage({x});
  MEGA_CHECK(cap > 0, "a softcap of {}", cap);
  constexpr double kFlops = 25;  // of tanh, roughly
  const device::Work work{kFlops * static_cast<double>(x.num_elements()), x.bytes(), x.bytes()};
  run_chosen<Softcap>(exec, "softcap", work, kSoftcap, {x, scale, cap});
}

void softcap_backward(Exec& exec, ConstView dy, ConstView y, View dx, float scale, float cap) {
  check_same_shape(dy, dx);
  check_same_shape(y, dx);
  check_storage({dy, y, dx});
  MEGA_CHECK(cap > 0, "a softcap of {}", cap);
  const device::Work work{5 * static_cast<double>(dx.num_elements()), dy.bytes() + y.bytes(),
                          dx.bytes()};
  run_chosen<SoftcapBackward>(exec, "softcap_backward", work, kSoftcapBackward,
                              {dy, y, dx, scale, cap});
}

void add(Exec& exec, ConstView a, ConstView b, View y) {
  check_same_shape(a, y);
  check_same_shape(b, y);
  check_storage({a, b, y});
  const device::Work work{static_cast<double>(y.num_elements()), a.bytes() + b.bytes(), y.bytes()};
  run_chosen<Add>(exec, "add", work, kAdd, {a, b, y});
}

void fill(Exec& exec, View y, double value) {
  const bool integral = y.dtype() == DType::i32 || y.dtype() == DType::i64;
  MEGA_CHECK(!integral || value == std::trunc(value), "{} into {}", value, y.dtype());
  MEGA_CHECK(integral || y.dtype() == DType::f64 || is_narrow(y.dtype()), "fill of {}", y.dtype());
  run_chosen<Fill>(exec, "fill", {0, 0, y.bytes()}, kFill, {y, value});
}

void fill_rows(Exec& exec, const Fill& arguments) {
  const auto [y, value] = arguments;
  switch (y.dtype()) {
    case DType::f64:
      return fill_with(exec, y, value);
    case DType::f32:
      return fill_with(exec, y, static_cast<float>(value));
    case DType::bf16:
      return fill_with(exec, y, round_to_bf16(value));
    case DType::f16:
      return fill_with(exec, y, round_to_f16(value));
    case DType::i32:
      return fill_with(exec, y, static_cast<int32_t>(value));
    default:
      return fill_with(exec, y, static_cast<int64_t>(value));
  }
}

}  // namespace megalith::kernels
