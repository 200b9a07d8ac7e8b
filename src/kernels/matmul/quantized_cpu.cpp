// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/quantized_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/quantized.h"
#include "kernels/matmul/quantized_tile-inl.h"
#include "kernels/matmul/small_m_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace {

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
};

template <int kRows>
HWY_INLINE void add_column(FloatVec value, const float* a, FloatVec (&sum)[kRows]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Set(FloatTag(), a[r]), value, sum[r]);
}

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

/// The chains over k in [begin, end); `a` is packed: a[k * kRows + row].
template <Format kFormat, int kRows, int kGroups>
HWY_INLINE void run_chains(const Groups<kGroups>& groups, int64_t begin, int64_t end,
                           const float* a, Sums<kRows, kGroups>& sums) {
  constexpr int kVectors = Groups<kGroups>::kVectors;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums.sum[v][r] = hn::Zero(FloatTag());
  }
  for (int64_t k = begin; k < end;) {
    const int64_t block = k / kBlockColumns;
    if (k % kBlockColumns == 0 && k + kBlockColumns <= end) {
      add_block<kFormat, kRows, kGroups>(groups, block, a + k * kRows, sums);
      k += kBlockColumns;
      continue;
    }
    // Shards may end inside a block.
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* const tile = groups.tiles[v / kTileVectors] + block * groups.step;
      const int half = v % kTileVectors;
      add_column<kRows>(widen_column<kFormat>(tile, load_scales<kFormat>(tile, half), half,
                                              static_cast<int>(k % kBlockColumns)),
                        a + k * kRows, sums.sum[v]);
    }
    ++k;
  }
}

/// kGroups groups of columns with the rows packed at `a`: the tree over the shards runs on a stack.
template <Format kFormat, int kRows, int kGroups>
void run_groups(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
                int64_t group) {
  constexpr int kWidth = kGroups * static_cast<int>(kGroupRows);
  HWY_ALIGN float stack[kMaxLevels][kRows][kWidth];
  const Groups<kGroups> groups(product, group);
  const int64_t width = product.k / product.k_shards;
  int depth = 0;
  for (int shard = 0; shard < product.k_shards; ++shard) {
    Sums<kRows, kGroups> sums;
    run_chains<kFormat, kRows, kGroups>(groups, shard * width, (shard + 1) * width, a, sums);
    const int num_merges = merges[static_cast<size_t>(shard)];
#pragma GCC unroll 8
    for (int v = 0; v < Groups<kGroups>::kVectors; ++v) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        FloatVec sum = sums.sum[v][r];
        for (int i = 1; i <= num_merges; ++i)
          sum = hn::Add(load(stack[depth - i][r] + v * kFloatLanes), sum);
        store(sum, stack[depth - num_merges][r] + v * kFloatLanes);
      }
    }
    depth += 1 - num_merges;
  }
  const int64_t column = group * kGroupRows;
  finish_tile(product.epilogue, stack[0][0], kWidth, rows.begin, rows.size(), column,
              std::min<int64_t>(kWidth, product.n - column));
}

template <Format kFormat, int kRows, int kGroups>
void run_rows(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
              Range groups) {
  for (int64_t g = groups.begin; g < groups.end;) {
    if (g % kGroups == 0 && g + kGroups <= groups.end) {
      run_groups<kFormat, kRows, kGroups>(product, merges, a, rows, g);
      g += kGroups;
    } else {
      run_groups<kFormat, kRows, 1>(product, merges, a, rows, g++);
    }
  }
}

template <Format kFormat>
void run_format(const Product& product, const std::vector<int>& merges, int rows_at_once,
                const float* a, Range rows, Range groups) {
  constexpr bool kWide = HWY_CAP_GE512;
  switch (rows_at_once) {
    case 1:
      return run_rows < kFormat, 1, kWide ? 4 : 2 > (product, merges, a, rows, groups);
    case 2:
      return run_rows < kFormat, 2, kWide ? 4 : 1 > (product, merges, a, rows, groups);
    case 4:
      return run_rows < kFormat, 4, kWide ? 4 : 1 > (product, merges, a, rows, groups);
    default:
      break;
  }
#if HWY_CAP_GE512
  if (rows_at_once == 8) return run_rows<kFormat, 8, 2>(product, merges, a, rows, groups);
  return run_rows<kFormat, 16, 1>(product, merges, a, rows, groups);
#endif
}

}  // namespace

void run_quantized_part(const Product& product, const std::vector<int>& merges, int rows_at_once,
                        const float* a, Range rows, Range groups) {
  switch (product.b.format) {
    case Format::q8_0:
      return run_format<Format::q8_0>(product, merges, rows_at_once, a, rows, groups);
    case Format::q4_0:
      return run_format<Format::q4_0>(product, merges, rows_at_once, a, rows, groups);
    default:
      return run_format<Format::q4_1>(product, merges, rows_at_once, a, rows, groups);
  }
}

void pack_quantized_rows(const Product& product, int rows_at_once, int64_t distance, float* out) {
  pack_small_m(product, PanelForm::floats, rows_at_once, distance, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kMaxRows = 16;
constexpr int64_t kGroupsAtOnce = 4;  // of a thread's pieces

/// Rows of A whose sums fit the registers beside a vector of columns and its codes.
int rows_at_once(int64_t m, device::Isa isa) {
  const int64_t most = isa == device::Isa::avx2 ? 4 : 16;
  return static_cast<int>(
      std::min<int64_t>(most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(m)))));
}

int64_t pass_floats(const Product& product, int rows) {
  return round_up<int64_t>(product.k * rows, 16);
}

}  // namespace

bool is_few_quantized(const Product& product) {
  return !is_plain(product.b.format) && product.m <= kMaxRows;
}

int64_t quantized_scratch_bytes(const Product& product, device::Isa isa) {
  const int rows = rows_at_once(product.m, isa);
  return 4 * pass_floats(product, rows) * ceil_div<int64_t>(product.m, rows);
}

void run_quantized(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch) {
  const bool avx2 = isa == device::Isa::avx2;
  const int rows = rows_at_once(product.m, isa);
  const int64_t distance = pass_floats(product, rows);
  float* a = reinterpret_cast<float*>(scratch);
  (avx2 ? N_AVX2::pack_quantized_rows : N_AVX3::pack_quantized_rows)(product, rows, distance, a);
  const std::vector<int> merges = shard_merges(product.k_shards);
  const auto run = avx2 ? N_AVX2::run_quantized_part : N_AVX3::run_quantized_part;
  pool.for_pieces(num_groups(product.n), kGroupsAtOnce, [&](Range groups, int) {
    for (int64_t row = 0; row < product.m; row += rows)
      run(product, merges, rows, a + row / rows * distance, {row, std::min(row + rows, product.m)},
          groups);
  });
}

}  // namespace megalith::kernels::matmul
#endif
