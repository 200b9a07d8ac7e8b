// SPDX-License-Identifier: Apache-2.0
// Rotary embedding for f32, bf16 and f16: a vector of pairs at a time; the angles of a row stay in
// the first-level cache while its heads pass.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/rotary/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary/rotary_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/pairs-inl.h"
#include "kernels/elementary/sin_cos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

void angles_of_rows(const RotaryAngles& a, Range rows) {
  const RotaryFrequencies& frequencies = a.frequencies;
  static_assert(RotaryFrequencies::kMaxPairs % kFloatLanes == 0);  // whole vectors may be read
  const FloatVec scale = hn::Set(FloatTag(), frequencies.scale);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const auto position = static_cast<float>(a.position_T.as<int32_t>()[t]);
    float* cosines = a.angles_TA.row<float>(t);
    float* sines = cosines + frequencies.pairs;
    for (int64_t i = 0; i < frequencies.pairs; i += kFloatLanes) {
      const FloatVec inverse = load(frequencies.inverse.data() + i);
      const VecSinCos turn = sin_cos(hn::Mul(hn::Set(FloatTag(), position), inverse));
      const FloatVec c = hn::Mul(turn.cos, scale), s = hn::Mul(turn.sin, scale);
      const int64_t count = std::min(kFloatLanes, frequencies.pairs - i);
      if (count == kFloatLanes) {
        store(c, cosines + i);
        store(s, sines + i);
      } else {
        store_some(c, cosines + i, count);
        store_some(s, sines + i, count);
      }
    }
  }
}

/// (x1 c - x2 s, x2 c + x1 s); `flip` holds the sign bits that turn s around.
HWY_INLINE VecPair turned(const VecPair& x, FloatVec c, FloatVec s, FloatVec flip) {
  const FloatVec sine = hn::Xor(s, flip);
  return {hn::MulSub(x.first, c, hn::Mul(x.second, sine)),
          hn::MulAdd(x.second, c, hn::Mul(x.first, sine))};
}

/// Elements i and pairs + i.
template <class T>
HWY_INLINE void turn_halves(T* x, const float* angles, int64_t pairs, FloatVec flip) {
  T* y = x + pairs;
  const float* sines = angles + pairs;
  int64_t i = 0;
  for (; i + kFloatLanes <= pairs; i += kFloatLanes) {
    const VecPair v = turned({load(x + i), load(y + i)}, load(angles + i), load(sines + i), flip);
    store(v.first, x + i);
    store(v.second, y + i);
  }
  if (const int64_t n = pairs - i; n > 0) {
    const VecPair v = turned({load_some(x + i, n), load_some(y + i, n)}, load_some(angles + i, n),
                             load_some(sines + i, n), flip);
    store_some(v.first, x + i, n);
    store_some(v.second, y + i, n);
  }
}

/// Elements 2 i and 2 i + 1.
template <class T>
HWY_INLINE void turn_interleaved(T* x, const float* angles, int64_t pairs, FloatVec flip) {
  const float* sines = angles + pairs;
  int64_t i = 0;
  for (; i + kFloatLanes <= pairs; i += kFloatLanes)
    store_pairs(turned(load_pairs(x + 2 * i), load(angles + i), load(sines + i), flip), x + 2 * i);
  if (const int64_t n = pairs - i; n > 0) {
    const VecPair v = turned(load_pairs_some(x + 2 * i, n), load_some(angles + i, n),
                             load_some(sines + i, n), flip);
    store_pairs_some(v, x + 2 * i, n);
  }
}

/// The same head of the next row comes a row later: its lines arrive meanwhile. (The hardware does
/// not foresee heads with gaps between them.)
template <class T>
HWY_INLINE void prefetch_head(const T* x, int64_t pairs) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < 2 * pairs; i += kLine) __builtin_prefetch(x + i, 1);
}

template <class T>
void turn_rows(const RotaryApply& a, Range rows) {
  const int64_t pairs = a.angles_TA.size(1) / 2;
  const FloatVec flip = hn::Set(FloatTag(), a.inverse ? -0.0f : 0.0f);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const float* angles = a.angles_TA.row<float>(t);
    for (int64_t h = 0; h < a.x_TND.num_heads; ++h) {
      T* x = reinterpret_cast<T*>(a.x_TND.at(t, h));
      prefetch_head(reinterpret_cast<T*>(a.x_TND.at(std::min(t + 1, rows.end - 1), h)), pairs);
      if (a.style == RotaryStyle::half) {
        turn_halves(x, angles, pairs, flip);
      } else {
        turn_interleaved(x, angles, pairs, flip);
      }
    }
  }
}

void apply_to_rows(const RotaryApply& a, Range rows) {
  if (a.x_TND.dtype == DType::f32) {
    turn_rows<float>(a, rows);
  } else if (a.x_TND.dtype == DType::f16) {
    turn_rows<f16_t>(a, rows);
  } else {
    turn_rows<bf16_t>(a, rows);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kGrainAngles = 512, kGrainPairs = 4096;  // less is not worth another thread

}  // namespace

void rotary_angles_simd(Exec& exec, const RotaryAngles& a) {
  const int64_t grain = std::max<int64_t>(1, kGrainAngles / a.frequencies.pairs);
  exec.device.pool().for_range(a.angles_TA.size(0), grain, [&](Range rows, int) {
    MEGA_CALL_SIMD(exec, angles_of_rows, a, rows);
  });
}

void rotary_apply_simd(Exec& exec, const RotaryApply& a) {
  const int64_t per_row = std::max<int64_t>(1, a.x_TND.num_heads * a.angles_TA.size(1) / 2);
  const int64_t grain = std::max<int64_t>(1, kGrainPairs / per_row);
  exec.device.pool().for_range(a.x_TND.num_rows, grain, [&](Range rows, int) {
    MEGA_CALL_SIMD(exec, apply_to_rows, a, rows);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
