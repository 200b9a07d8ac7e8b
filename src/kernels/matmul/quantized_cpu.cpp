// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/quantized_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/matmul/few_rows-inl.h"
#include "kernels/matmul/quantized.h"
#include "kernels/matmul/quantized_tile-inl.h"
#include "kernels/matmul/small_m_pack-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace {

/// All chains go through block `block`.
template <Format kFormat, int kRows, int kGroups>
HWY_INLINE void add_block(const Groups<kGroups>& groups, int64_t block, const float* a,
                          Sums<kRows, kGroups>& sums) {
  constexpr int kVectors = Groups<kGroups>::kVectors;
  TileScales scales[kVectors];
  const std::byte* tile[kGroups];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
    tile[g] = groups.tiles[g] + block * groups.step;
    fetch_ahead<kFormat>(tile[g]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v)
    scales[v] = load_scales<kFormat>(tile[v / kTileVectors], v % kTileVectors);
  for (int step = 0; step < kTileSteps<kFormat>; ++step, a += kStepColumns<kFormat> * kRows) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      FloatVec value[kStepColumns<kFormat>];
      widen_words<kFormat>(load_codes<kFormat>(tile[v / kTileVectors], step, v % kTileVectors),
                           scales[v], value);
#pragma GCC unroll 8
      for (int j = 0; j < kStepColumns<kFormat>; ++j)
        add_column<kRows>(value[j], a + j * kRows, sums.sum[v]);
    }
  }
}

/// The f32 chain over what a format in blocks widens to.
template <Format kBlocks>
struct BlockTiles {
  static constexpr Format kFormat = kBlocks;
  static constexpr int64_t steps(int64_t k) { return k; }

  template <int kRows, int kGroups>
  static HWY_INLINE void run(const Groups<kGroups>& groups, int64_t begin, int64_t end,
                             const float* a, Sums<kRows, kGroups>& sums) {
    sums.clear();
    for (int64_t k = begin; k < end;) {
      const int64_t block = k / kBlockColumns;
      if (k % kBlockColumns == 0 && k + kBlockColumns <= end) {
        add_block<kFormat, kRows, kGroups>(groups, block, a + k * kRows, sums);
        k += kBlockColumns;
        continue;
      }
      // Shards may end inside a block.
#pragma GCC unroll 8
      for (int v = 0; v < Groups<kGroups>::kVectors; ++v) {
        const std::byte* const tile = groups.tiles[v / kTileVectors] + block * groups.step;
        const int half = v % kTileVectors;
        add_column<kRows>(widen_column<kFormat>(tile, load_scales<kFormat>(tile, half), half,
                                                static_cast<int>(k % kBlockColumns)),
                          a + k * kRows, sums.sum[v]);
      }
      ++k;
    }
  }
};

}  // namespace

void run_quantized_part(const Product& product, const std::vector<int>& merges, int rows_at_once,
                        const float* a, Range rows, Range groups) {
  switch (product.b.format) {
    case Format::q8_0:
      return run_tiles<BlockTiles<Format::q8_0>>(product, merges, rows_at_once, a, rows, groups);
    case Format::q4_0:
      return run_tiles<BlockTiles<Format::q4_0>>(product, merges, rows_at_once, a, rows, groups);
    default:
      return run_tiles<BlockTiles<Format::q4_1>>(product, merges, rows_at_once, a, rows, groups);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kGroupsAtOnce = 4;  // of a thread's pieces

}  // namespace

bool is_few_quantized(const Product& product) {
  const bool is_in_blocks = !is_plain(product.b.format) && product.b.format != Format::fp8;
  return is_in_blocks && product.m <= kFewRows;
}

int64_t quantized_scratch_bytes(const Product& product, device::Isa isa) {
  return RowPasses::of_codes(product, isa).bytes();
}

void run_quantized(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch) {
  const bool avx2 = isa == device::Isa::avx2;
  const RowPasses passes = RowPasses::of_codes(product, isa);
  float* const packed = reinterpret_cast<float*>(scratch);
  (avx2 ? N_AVX2::pack_small_m : N_AVX3::pack_small_m)(product, PanelForm::floats, passes, packed);
  const std::vector<int> merges = shard_merges(product.k_shards);
  const auto run = avx2 ? N_AVX2::run_quantized_part : N_AVX3::run_quantized_part;
  pool.for_pieces(num_groups(product.n), kGroupsAtOnce, [&](Range groups, int) {
    passes.for_each(packed, [&](Range rows, const float* a) {
      run(product, merges, passes.rows, a, rows, groups);
    });
  });
}

}  // namespace megalith::kernels::matmul
#endif
