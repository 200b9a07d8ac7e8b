// SPDX-License-Identifier: Apache-2.0
// Conversions by vectors: bound by memory, one pass.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow/convert_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/narrow/narrow_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// f(T{}) with the storage type.
template <class Function>
HWY_INLINE void with_type(DType dtype, const Function& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16_t{});
    case DType::f16:
      return f(f16_t{});
    case DType::f8_e4m3:
      return f(f8_e4m3_t{});
    default:
      return f(f8_e5m2_t{});
  }
}

template <class X, class Y>
HWY_INLINE void convert_vectors(const X* x, Y* y, int64_t n, Overflow overflow) {
  int64_t i = 0;
  if constexpr (sizeof(Y) == 1) {
    const WordVec top = overflow_code<Y>(overflow);
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
      store_codes(float8_codes<Y>(load(x + i), top), y + i);
    }
    if (i < n) store_first_codes(float8_codes<Y>(load_first(x + i, n - i), top), y + i, n - i);
  } else {
    for (; i + kFloatLanes <= n; i += kFloatLanes) store(load(x + i), y + i);
    if (i == n) return;
    HWY_ALIGN Y rest[kFloatLanes];
    store(load_first(x + i, n - i), rest);
    std::memcpy(y + i, rest, static_cast<size_t>(n - i) * sizeof(Y));
  }
}

void convert_piece(const ConstView& x, const View& y, Overflow overflow, int64_t row, int64_t begin,
                   int64_t end) {
  with_type(x.dtype(), [&](auto x_type) {
    with_type(y.dtype(), [&](auto y_type) {
      convert_vectors(x.row<decltype(x_type)>(row) + begin, y.row<decltype(y_type)>(row) + begin,
                      end - begin, overflow);
    });
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void convert_simd(Exec& exec, const Convert& arguments) {
  const bool flat = arguments.x.is_contiguous() && arguments.y.is_contiguous();
  const ConstView x = flat ? as_one_row(arguments.x) : as_matrix(arguments.x);
  const View y = flat ? as_one_row(arguments.y) : as_matrix(arguments.y);
  const Overflow overflow = arguments.overflow;
  for_pieces(exec, y.size(0), y.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, convert_piece, x, y, overflow, row, begin, end);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
