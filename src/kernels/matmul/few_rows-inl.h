// SPDX-License-Identifier: Apache-2.0
// The product of few rows of A whose B lies in tiles (tensor/blocks.h), whatever the format: groups
// of rows of B, their chains in registers, the tree over the shards. `Tiles` is how a format's
// chains run:
//   kFormat                       whose tiles they are
//   steps(k)                      of packed A, that k columns take
//   run(groups, begin, end, a, sums)   the chains from 0 over columns [begin, end) of a shard, with
//                                 A packed at `a`: a[step * kRows + row] from column 0 on
// Compiled so that the instruction of the bf16 chain can be inlined, which Tiles alone may use.
// Included once per instruction set.
#if defined(MEGA_FEW_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_FEW_ROWS_INL_H
#undef MEGA_FEW_ROWS_INL_H
#else
#define MEGA_FEW_ROWS_INL_H
#endif

#include <algorithm>
#include <vector>

#include "kernels/elementary/bf16_chain-inl.h"
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/tiles-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

/// Groups of rows of B from one on, of one strip: chains advance side by side, because each waits
/// for its own last sum.
template <int kGroups>
struct Groups {
  static constexpr int kVectors = kGroups * kTileVectors;
  const std::byte* tiles[kGroups];
  int64_t step = 0;  // from a block to the next

  Groups(const Product& product, int64_t group) {
    for (int g = 0; g < kGroups; ++g) {
      const TileRun run = tile_run(product.b.format, product.n, product.k, group + g);
      tiles[g] = product.b.data + run.begin;
      step = run.step;
    }
  }
};

template <int kRows, int kGroups>
struct Sums {
  FloatVec sum[kGroups * kTileVectors][kRows];

  HWY_INLINE void clear() {
#pragma GCC unroll 8
    for (int v = 0; v < kGroups * kTileVectors; ++v) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[v][r] = hn::Zero(FloatTag());
    }
  }
};

template <int kRows>
HWY_INLINE void add_column(FloatVec value, const float* a, FloatVec (&sum)[kRows]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Set(FloatTag(), a[r]), value, sum[r]);
}

/// kGroups groups of columns with the rows packed at `a`: the tree over the shards runs on a stack.
template <class Tiles, int kRows, int kGroups>
void run_groups(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
                int64_t group) {
  constexpr int kWidth = kGroups * static_cast<int>(kGroupRows);
  HWY_ALIGN float stack[kMaxLevels][kRows][kWidth];
  const Groups<kGroups> groups(product, group);
  const int64_t width = product.k / product.k_shards;
  int depth = 0;
  for (int shard = 0; shard < product.k_shards; ++shard) {
    Sums<kRows, kGroups> sums;
    Tiles::template run<kRows, kGroups>(groups, shard * width, (shard + 1) * width, a, sums);
    depth = push_shard(sums.sum, merges[static_cast<size_t>(shard)], stack, depth);
  }
  const int64_t column = group * kGroupRows;
  finish_tile(product.epilogue, stack[0][0], kWidth, rows.begin, rows.size(), column,
              std::min<int64_t>(kWidth, product.n - column));
}

template <class Tiles, int kRows, int kGroups>
void run_rows(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
              Range groups) {
  for (int64_t g = groups.begin; g < groups.end;) {
    if (g % kGroups == 0 && g + kGroups <= groups.end) {
      run_groups<Tiles, kRows, kGroups>(product, merges, a, rows, g);
      g += kGroups;
    } else {
      run_groups<Tiles, kRows, 1>(product, merges, a, rows, g++);
    }
  }
}

template <class Tiles>
void run_tiles(const Product& product, const std::vector<int>& merges, int rows_at_once,
               const float* a, Range rows, Range groups) {
  constexpr bool kWide = HWY_CAP_GE512;
  switch (rows_at_once) {
    case 1:
      return run_rows < Tiles, 1, kWide ? 4 : 2 > (product, merges, a, rows, groups);
    case 2:
      return run_rows < Tiles, 2, kWide ? 4 : 1 > (product, merges, a, rows, groups);
    case 4:
      return run_rows < Tiles, 4, kWide ? 4 : 1 > (product, merges, a, rows, groups);
    default:
      break;
  }
#if HWY_CAP_GE512
  if (rows_at_once == 8) return run_rows<Tiles, 8, 2>(product, merges, a, rows, groups);
  return run_rows<Tiles, 16, 1>(product, merges, a, rows, groups);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
