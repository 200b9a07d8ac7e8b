// SPDX-License-Identifier: Apache-2.0
// Sines and cosines of positions for f32, bf16 and f16: a vector of pairs at a time, rows over
// threads.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/grain.h"
#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/embedding/sinusoidal_implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/sinusoidal_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/pairs-inl.h"
#include "kernels/elementary/sin_cos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// Pairs [i, i + kFloatLanes) of a row, of which n are there; +0 in the place of the others.
template <class T>
HWY_INLINE VecPair pairs_at(const T* row, int64_t i, int64_t n) {
  return n >= kFloatLanes ? load_pairs(row + 2 * i) : load_pairs_some(row + 2 * i, n);
}
HWY_INLINE VecSinCos turn_at(const float* inverse, FloatVec position, int64_t i, int64_t n) {
  const FloatVec of_pairs = n >= kFloatLanes ? load(inverse + i) : load_some(inverse + i, n);
  return sin_cos(hn::Mul(position, of_pairs));
}
HWY_INLINE FloatVec position_of(const ConstView& position_T, int64_t t) {
  return hn::Set(FloatTag(), static_cast<float>(position_T.as<int32_t>()[t]));
}

template <class T>
void add_rows(const SinusoidalForward& a, float factor, Range rows) {
  const int64_t pairs = a.inverse_P.size(0);
  const FloatVec scale = hn::Set(FloatTag(), factor);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const FloatVec position = position_of(a.position_T, t);
    T* const y = a.y_TH.row<T>(t);
    for (int64_t i = 0; i < pairs; i += kFloatLanes) {
      const int64_t n = pairs - i;
      const VecSinCos p = turn_at(a.inverse_P.as<float>(), position, i, n);
      const VecPair before = pairs_at(y, i, n);
      const VecPair sum{hn::MulAdd(scale, p.sin, before.first),
                        hn::MulAdd(scale, p.cos, before.second)};
      if (n >= kFloatLanes) {
        store_pairs(sum, y + 2 * i);
      } else {
        store_pairs_some(sum, y + 2 * i, n);
      }
    }
  }
}

template <class T>
void sum_rows(const SinusoidalBackward& a, Range rows) {
  const int64_t pairs = a.inverse_P.size(0);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const FloatVec position = position_of(a.position_T, t);
    const T* const dy = a.dy_TH.row<T>(t);
    Vec16 sum = set16(0.0f);
    for (int64_t block = 0; block < pairs; block += 16) {
      for (int part = 0; part < kParts; ++part) {
        const int64_t i = block + part * kFloatLanes, n = pairs - i;
        if (n <= 0) break;
        const VecSinCos p = turn_at(a.inverse_P.as<float>(), position, i, n);
        const VecPair d = pairs_at(dy, i, n);
        sum.part[part] = hn::MulAdd(d.second, p.cos, hn::MulAdd(d.first, p.sin, sum.part[part]));
      }
    }
    a.dscale_T.as<float>()[t] = tree_sum16(sum);
  }
}

void add_any_rows(const SinusoidalForward& a, float factor, Range rows) {
  if (a.y_TH.dtype() == DType::f32) {
    add_rows<float>(a, factor, rows);
  } else if (a.y_TH.dtype() == DType::f16) {
    add_rows<f16_t>(a, factor, rows);
  } else {
    add_rows<bf16_t>(a, factor, rows);
  }
}
void sum_any_rows(const SinusoidalBackward& a, Range rows) {
  if (a.dy_TH.dtype() == DType::f32) {
    sum_rows<float>(a, rows);
  } else if (a.dy_TH.dtype() == DType::f16) {
    sum_rows<f16_t>(a, rows);
  } else {
    sum_rows<bf16_t>(a, rows);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kGrainElements = 2048;  // of sines and cosines, which cost more than sums

}  // namespace

void sinusoidal_forward_simd(Exec& exec, const SinusoidalForward& a) {
  const auto factor = static_cast<float>(read_double(a.scale, 0, 0));
  exec.device.pool().for_range(
      a.y_TH.size(0), row_grain(a.y_TH.size(1), kGrainElements),
      [&](Range range, int) { MEGA_CALL_SIMD(exec, add_any_rows, a, factor, range); });
}

void sinusoidal_backward_simd(Exec& exec, const SinusoidalBackward& a) {
  exec.device.pool().for_range(
      a.dy_TH.size(0), row_grain(a.dy_TH.size(1), kGrainElements),
      [&](Range range, int) { MEGA_CALL_SIMD(exec, sum_any_rows, a, range); });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
