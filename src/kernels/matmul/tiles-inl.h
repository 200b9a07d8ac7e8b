// SPDX-License-Identifier: Apache-2.0
// Tiles of weights (tensor/blocks.h) as vectors, whatever the format. Included once per instruction
// set.
#if defined(MEGA_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_TILES_INL_H
#undef MEGA_TILES_INL_H
#else
#define MEGA_TILES_INL_H
#endif

#include "kernels/elementary/simd_math-inl.h"
#include "kernels/matmul/gemm.h"
#include "tensor/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

/// Vectors that the rows of a tile make.
inline constexpr int kTileVectors = static_cast<int>(kGroupRows / kFloatLanes);

/// Tiles come in the order in which they lie in memory; hardware alone does not keep up where a
/// page ends.
template <Format kFormat>
HWY_INLINE void fetch_ahead(const std::byte* tile) {
  constexpr int64_t kAhead = 4096;
  for (int64_t at = 0; at < tile_bytes(kFormat); at += 64)
    __builtin_prefetch(tile + kAhead + at, 0, 3);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
