// SPDX-License-Identifier: Apache-2.0
// Cells for f32: a vector of columns at a time, the polynomials of math/elementary.h.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/lstm_cell_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// Up to a vector of neighbouring columns.
struct Lanes {
  int64_t first, count;

  HWY_INLINE FloatVec read(const float* row) const {
    return count == kFloatLanes ? load(row + first) : load_some(row + first, count);
  }
  HWY_INLINE void write(FloatVec v, float* row) const {
    if (count == kFloatLanes) {
      store(v, row + first);
    } else {
      store_some(v, row + first, count);
    }
  }
};

template <class Function>
HWY_INLINE void for_lanes(int64_t begin, int64_t end, const Function& f) {
  for (int64_t j = begin; j < end; j += kFloatLanes)
    f(Lanes{j, end - j < kFloatLanes ? end - j : kFloatLanes});
}

struct Gates {
  FloatVec i, f, g, o;
};
HWY_INLINE Gates gates_of(const float* u, int64_t width, const Lanes& lanes) {
  return {elementary::sigmoid<SimdOps>(lanes.read(u)),
          elementary::sigmoid<SimdOps>(lanes.read(u + width)),
          elementary::tanh<SimdOps>(lanes.read(u + 2 * width)),
          elementary::sigmoid<SimdOps>(lanes.read(u + 3 * width))};
}
HWY_INLINE FloatVec before_of(const ConstView& before_TH, int64_t row, const Lanes& lanes) {
  if (before_TH.absent()) return hn::Zero(FloatTag());
  return lanes.read(before_TH.row<float>(row));
}
/// 1 - x^2
HWY_INLINE FloatVec one_less_square(FloatVec x) {
  return hn::NegMulAdd(x, x, hn::Set(FloatTag(), 1.0f));
}
/// s (1 - s)
HWY_INLINE FloatVec sigmoid_slope(FloatVec s) {
  return hn::Mul(s, hn::Sub(hn::Set(FloatTag(), 1.0f), s));
}

void forward_piece(const LstmCellForward& a, int64_t row, int64_t begin, int64_t end) {
  const int64_t width = a.h_TH.size(1);
  for_lanes(begin, end, [&](const Lanes& lanes) {
    const Gates gates = gates_of(a.u_TG.row<float>(row), width, lanes);
    const FloatVec before = before_of(a.before_TH, row, lanes);
    const FloatVec c = hn::MulAdd(gates.f, before, hn::Mul(gates.i, gates.g));
    lanes.write(c, a.c_TH.row<float>(row));
    lanes.write(hn::Mul(gates.o, elementary::tanh<SimdOps>(c)), a.h_TH.row<float>(row));
  });
}

void backward_piece(const LstmCellBackward& a, int64_t row, int64_t begin, int64_t end) {
  const int64_t width = a.dh_TH.size(1);
  float* const du = a.du_TG.row<float>(row);
  for_lanes(begin, end, [&](const Lanes& lanes) {
    const Gates gates = gates_of(a.u_TG.row<float>(row), width, lanes);
    const FloatVec before = before_of(a.before_TH, row, lanes);
    const FloatVec dh = lanes.read(a.dh_TH.row<float>(row));
    const FloatVec tanh_c = elementary::tanh<SimdOps>(lanes.read(a.c_TH.row<float>(row)));
    const FloatVec d = hn::MulAdd(hn::Mul(dh, gates.o), one_less_square(tanh_c),
                                  lanes.read(a.dc_TH.row<float>(row)));
    lanes.write(hn::Mul(hn::Mul(d, gates.g), sigmoid_slope(gates.i)), du);
    lanes.write(hn::Mul(hn::Mul(d, before), sigmoid_slope(gates.f)), du + width);
    lanes.write(hn::Mul(hn::Mul(d, gates.i), one_less_square(gates.g)), du + 2 * width);
    lanes.write(hn::Mul(hn::Mul(dh, tanh_c), sigmoid_slope(gates.o)), du + 3 * width);
    lanes.write(hn::Mul(d, gates.f), a.dc_TH.row<float>(row));
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void lstm_cell_forward_simd(Exec& exec, const LstmCellForward& a) {
  for_pieces(exec, a.h_TH.size(0), a.h_TH.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, forward_piece, a, row, begin, end);
  });
}

void lstm_cell_backward_simd(Exec& exec, const LstmCellBackward& a) {
  for_pieces(exec, a.dh_TH.size(0), a.dh_TH.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, backward_piece, a, row, begin, end);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
