// SPDX-License-Identifier: Apache-2.0
// The inner loop of every matrix product: a tile of kRows x 2 vectors of f32 sums stays in
// registers while k runs through one segment; vectors lie along the columns, the other operand is
// broadcast. Each sum is one chain in the order of the packed steps. Included once per instruction
// set.
#if defined(MEGA_MICRO_KERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_MICRO_KERNEL_INL_H
#undef MEGA_MICRO_KERNEL_INL_H
#else
#define MEGA_MICRO_KERNEL_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/elementary/bf16_chain-inl.h"
#include "kernels/matmul/gemm.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

inline constexpr int kTileColumns = 2 * HWY_LANES(float);
// Sums, two vectors of B and a broadcast fill the 32 (16) registers.
inline constexpr int kTileRows = HWY_LANES(float) == 16 ? 14 : 6;
// Packed rows lie at a distance of a whole vector: one aligned store writes those of a step, and
// broadcasting them touches one cache line.
inline constexpr int kRowPitch = HWY_LANES(float);
static_assert(kTileRows <= kRowPitch);

/// What one call computes: sums over steps s of the products of a[s * kRowPitch + row] and
/// b[s * kTileColumns + column], started from `start` (from 0 when null), then added to each of the
/// `merge` tiles, newest first.
struct TileWork {
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t steps = 0;
  bool flushes = false;  // denormals in the chain
  const float* start = nullptr;
  const float* merge = nullptr;  // the newest; older ones are `merge_distance` before each other
  int64_t merge_distance = 0;
  int num_merges = 0;
  int64_t stride = 0;  // between rows of start and merge
  float* out = nullptr;
  int64_t out_stride = 0;
};

/// Floats: one product. (VDPBF16PS on words: DotPairs.)
struct FmaFloats {
  static HWY_INLINE FloatVec step(WordVec a, WordVec b, FloatVec sum) {
    return hn::MulAdd(hn::BitCast(FloatTag(), a), hn::BitCast(FloatTag(), b), sum);
  }
};

template <typename Steps, int kRows>
void multiply_tile(const TileWork& work) {
  constexpr int kLanes = HWY_LANES(float);
  const FloatTag d;
  FloatVec sum[kRows][2];
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
  const uint32_t* HWY_RESTRICT a = reinterpret_cast<const uint32_t*>(work.a);
  const uint32_t* HWY_RESTRICT b = reinterpret_cast<const uint32_t*>(work.b);
  {
    // Every step reads memory, as does what comes before and after: nothing moves out or in.
    const FlushDenormals flush(work.flushes);
    for (int64_t s = work.steps; s > 0; --s) {
      const WordVec b0 = hn::Load(WordTag(), b);
      const WordVec b1 = hn::Load(WordTag(), b + kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const WordVec x = hn::Set(WordTag(), a[r]);
        sum[r][0] = Steps::step(x, b0, sum[r][0]);
        sum[r][1] = Steps::step(x, b1, sum[r][1]);
      }
      a += kRowPitch;
      b += kTileColumns;
    }
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

template <typename Steps>
MultiplyTile multiply_tile_of(int rows) {
  static constexpr MultiplyTile kAll[] = {
    multiply_tile<Steps, 1>,
    multiply_tile<Steps, 2>,
    multiply_tile<Steps, 3>,
    multiply_tile<Steps, 4>,
    multiply_tile<Steps, 5>,
    multiply_tile<Steps, 6>,
#if HWY_CAP_GE512
    multiply_tile<Steps, 7>,
    multiply_tile<Steps, 8>,
    multiply_tile<Steps, 9>,
    multiply_tile<Steps, 10>,
    multiply_tile<Steps, 11>,
    multiply_tile<Steps, 12>,
    multiply_tile<Steps, 13>,
    multiply_tile<Steps, 14>,
#endif
  };
  return kAll[rows - 1];
}

/// The micro-kernel for panels of this form and 1 <= rows <= kTileRows.
inline MultiplyTile multiply_tile_of(PanelForm form, int rows) {
#if HWY_CAP_GE512
  if (form == PanelForm::words) return multiply_tile_of<DotPairs>(rows);
#else
  MEGA_CHECK(form != PanelForm::words);
#endif
  return multiply_tile_of<FmaFloats>(rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
