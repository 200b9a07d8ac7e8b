// SPDX-License-Identifier: Apache-2.0
// Cast, scale and add for f32, bf16 and f16: bound by memory, one pass.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/pointwise_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

void cast_piece(const ConstView& x, const View& y, int64_t row, int64_t begin, int64_t end) {
  map_piece([](FloatVec v) { return v; }, x, y, row, begin, end);
}

void scale_piece(const View& x, float factor, int64_t row, int64_t begin, int64_t end) {
  const FloatVec factors = hn::Set(FloatTag(), factor);
  map_piece([&](FloatVec v) { return hn::Mul(v, factors); }, x, x, row, begin, end);
}

void scale_columns_piece(const View& x, const ConstView& factors, int64_t row, int64_t begin,
                         int64_t end) {
  map_piece([](FloatVec v, FloatVec factor) { return hn::Mul(v, factor); }, x, factors, x, row,
            begin, end);
}

void softcap_piece(const View& x, float inner, float cap, int64_t row, int64_t begin, int64_t end) {
  const FloatVec by = hn::Set(FloatTag(), inner), caps = hn::Set(FloatTag(), cap);
  map_piece([&](FloatVec v) { return hn::Mul(elementary::tanh<SimdOps>(hn::Mul(v, by)), caps); }, x,
            x, row, begin, end);
}

void softcap_backward_piece(const SoftcapBackward& a, int64_t row, int64_t begin, int64_t end) {
  const FloatVec scale = hn::Set(FloatTag(), a.scale), cap = hn::Set(FloatTag(), a.cap);
  const FloatVec one = hn::Set(FloatTag(), 1.0f);
  map_piece(
      [&](FloatVec dy, FloatVec y) {
        const FloatVec t = hn::Div(y, cap);
        return hn::Mul(dy, hn::Mul(scale, hn::NegMulAdd(t, t, one)));
      },
      a.dy, a.y, a.dx, row, begin, end);
}

void add_piece(const ConstView& a, const ConstView& b, const View& y, int64_t row, int64_t begin,
               int64_t end) {
  map_piece([](FloatVec u, FloatVec v) { return hn::Add(u, v); }, a, b, y, row, begin, end);
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void cast_simd(Exec& exec, const Cast& arguments) {
  const bool flat = arguments.x.is_contiguous() && arguments.y.is_contiguous();
  const ConstView x = flat ? as_one_row(arguments.x) : as_matrix(arguments.x);
  const View y = flat ? as_one_row(arguments.y) : as_matrix(arguments.y);
  for_pieces(exec, y.size(0), y.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, cast_piece, x, y, row, begin, end);
  });
}

void scale_columns_simd(Exec& exec, const View& x, const ConstView& factors) {
  for_pieces(exec, x.size(0), x.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, scale_columns_piece, x, factors, row, begin, end);
  });
}

void scale_simd(Exec& exec, const Scale& arguments) {
  if (!arguments.factor_view.absent() && arguments.factor_view.num_elements() != 1) {
    const View x = as_matrix(arguments.x);
    return scale_columns_simd(exec, x, arguments.factor_view.repeated(x.size(0)));
  }
  const View x = arguments.x.is_contiguous() ? as_one_row(arguments.x) : as_matrix(arguments.x);
  const float factor =
      arguments.factor_view.absent() ? arguments.factor : *arguments.factor_view.as<float>();
  for_pieces(exec, x.size(0), x.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, scale_piece, x, factor, row, begin, end);
  });
}

void softcap_simd(Exec& exec, const Softcap& arguments) {
  const View x = arguments.x.is_contiguous() ? as_one_row(arguments.x) : as_matrix(arguments.x);
  const float cap = arguments.cap, inner = arguments.scale / cap;
  for_pieces(exec, x.size(0), x.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, softcap_piece, x, inner, cap, row, begin, end);
  });
}

void softcap_backward_simd(Exec& exec, const SoftcapBackward& arguments) {
  SoftcapBackward a = arguments;
  a.dy = as_matrix(a.dy);
  a.y = as_matrix(a.y);
  a.dx = as_matrix(a.dx);
  for_pieces(exec, a.dx.size(0), a.dx.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, softcap_backward_piece, a, row, begin, end);
  });
}

void add_simd(Exec& exec, const Add& arguments) {
  const bool flat =
      arguments.a.is_contiguous() && arguments.b.is_contiguous() && arguments.y.is_contiguous();
  const ConstView a = flat ? as_one_row(arguments.a) : as_matrix(arguments.a);
  const ConstView b = flat ? as_one_row(arguments.b) : as_matrix(arguments.b);
  const View y = flat ? as_one_row(arguments.y) : as_matrix(arguments.y);
  for_pieces(exec, y.size(0), y.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, add_piece, a, b, y, row, begin, end);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
