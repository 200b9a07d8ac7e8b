// SPDX-License-Identifier: Apache-2.0
// The inner loop of every matrix product: a tile of kRows x 2 vectors of f32 sums stays in
// registers while k runs through one segment; vectors lie along the columns, the other operand is
// broadcast. Each sum is one chain of fused multiply-adds in increasing k. Included once per
// instruction set.
#if defined(MEGA_MICRO_KERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_MICRO_KERNEL_INL_H
#undef MEGA_MICRO_KERNEL_INL_H
#else
#define MEGA_MICRO_KERNEL_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kTileColumns = 2 * HWY_LANES(float);
// Sums, two vectors of B and a broadcast fill the 32 (16) registers.
inline constexpr int kTileRows = HWY_LANES(float) == 16 ? 14 : 6;
// Packed rows lie at a distance of a whole vector: one aligned store writes those of one k, and
// broadcasting them touches one cache line.
inline constexpr int kRowPitch = HWY_LANES(float);
static_assert(kTileRows <= kRowPitch);

/// What one call computes: sums over k of a[k * kRowPitch + row] * b[k * kTileColumns + column],
/// started from `start` (from 0 when null), then added to each of the `merge` tiles, newest first.
struct TileWork {
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t k = 0;
  const float* start = nullptr;
  const float* merge = nullptr;  // the newest; older ones are `merge_distance` before each other
  int64_t merge_distance = 0;
  int num_merges = 0;
  int64_t stride = 0;  // between rows of start and merge
  float* out = nullptr;
  int64_t out_stride = 0;
};

template <int kRows>
void multiply_tile(const TileWork& work) {
  constexpr int kLanes = HWY_LANES(float);
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V sum[kRows][2];
  if (work.start != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] = hn::LoadU(d, work.start + r * work.stride);
      sum[r][1] = hn::LoadU(d, work.start + r * work.stride + kLanes);
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  }
  const float* HWY_RESTRICT a = work.a;
  const float* HWY_RESTRICT b = work.b;
  for (int64_t k = work.k; k > 0; --k) {
    const V b0 = hn::Load(d, b);
    const V b1 = hn::Load(d, b + kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r]);
      sum[r][0] = hn::MulAdd(x, b0, sum[r][0]);
      sum[r][1] = hn::MulAdd(x, b1, sum[r][1]);
    }
    a += kRowPitch;
    b += kTileColumns;
  }
  for (int i = 0; i < work.num_merges; ++i) {
    const float* older = work.merge - i * work.merge_distance;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] = hn::Add(hn::LoadU(d, older + r * work.stride), sum[r][0]);
      sum[r][1] = hn::Add(hn::LoadU(d, older + r * work.stride + kLanes), sum[r][1]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(sum[r][0], d, work.out + r * work.out_stride);
    hn::StoreU(sum[r][1], d, work.out + r * work.out_stride + kLanes);
  }
}

using MultiplyTile = void (*)(const TileWork&);

/// The micro-kernel for 1 <= rows <= kTileRows.
inline MultiplyTile multiply_tile_of(int rows) {
  static constexpr MultiplyTile kAll[] = {
    multiply_tile<1>,
    multiply_tile<2>,
    multiply_tile<3>,
    multiply_tile<4>,
    multiply_tile<5>,
    multiply_tile<6>,
#if HWY_CAP_GE512
    multiply_tile<7>,
    multiply_tile<8>,
    multiply_tile<9>,
    multiply_tile<10>,
    multiply_tile<11>,
    multiply_tile<12>,
    multiply_tile<13>,
    multiply_tile<14>,
#endif
  };
  return kAll[rows - 1];
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
