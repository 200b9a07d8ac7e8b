// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/dot8.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "base/integer.h"
#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/dot8_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/matmul/dot8_codes-inl.h"
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/quantized_tile-inl.h"

#undef MEGA_BEFORE_DOT8_NAMESPACE
#if HWY_CAP_GE512
#define MEGA_BEFORE_DOT8_NAMESPACE() \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni") static_assert(true, "")
#else
#define MEGA_BEFORE_DOT8_NAMESPACE() \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avxvnni") static_assert(true, "")
#endif

MEGA_BEFORE_DOT8_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace {

/// sum + the products of four bytes of weights, without sign, and of x.
HWY_INLINE IntVec dot(WordVec weights, uint32_t x, IntVec sum) {
#if HWY_CAP_GE512
  return IntVec{
      _mm512_dpbusd_epi32(sum.raw, weights.raw, _mm512_set1_epi32(static_cast<int32_t>(x)))};
#else
  return IntVec{
      _mm256_dpbusd_avx_epi32(sum.raw, weights.raw, _mm256_set1_epi32(static_cast<int32_t>(x)))};
#endif
}

/// The codes of four columns at a time as bytes without sign, from the words of a step.
template <Format kFormat>
inline constexpr int kQuads = kFormat == Format::q8_0 ? 1 : 2;
template <Format kFormat>
HWY_INLINE void split_words(WordVec words, WordVec (&quad)[kQuads<kFormat>]) {
  if constexpr (kFormat == Format::q8_0) {
    quad[0] = words;
  } else {
    const WordVec low = hn::Set(WordTag(), 0x0f0f0f0fU);
    quad[0] = hn::And(words, low);
    quad[1] = hn::And(hn::ShiftRight<4>(words), low);
  }
}

/// Sums of one block of kGroups groups with kRows rows go on.
template <Format kFormat, int kRows, int kGroups>
HWY_INLINE void add_block(const std::byte* const (&tile)[kGroups], const std::byte* x,
                          FloatVec (&sum)[kGroups * kTileVectors][kRows]) {
  constexpr int kVectors = kGroups * kTileVectors;
  const std::byte* const scales = x + kRows * kBlockColumns;
  IntVec dots[kVectors][kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const auto offset = load_one<int32_t>(scales + 4 * (kRows + r));
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      dots[v][r] = hn::Set(IntTag(), has_least(kFormat) ? 0 : offset);
  }
#pragma GCC unroll 8
  for (int step = 0; step < kTileSteps<kFormat>; ++step) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      WordVec quad[kQuads<kFormat>];
      split_words<kFormat>(load_codes<kFormat>(tile[v / kTileVectors], step, v % kTileVectors),
                           quad);
#pragma GCC unroll 2
      for (int q = 0; q < kQuads<kFormat>; ++q) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const int64_t at = r * kBlockColumns + (step * kQuads<kFormat> + q) * 4;
          dots[v][r] = dot(quad[q], load_one<uint32_t>(x + at), dots[v][r]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const TileScales of = load_scales<kFormat>(tile[v / kTileVectors], v % kTileVectors);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const FloatVec scale =
          hn::Mul(of.scale, hn::Set(FloatTag(), load_one<float>(scales + 4 * r)));
      sum[v][r] = hn::MulAdd(hn::ConvertTo(FloatTag(), dots[v][r]), scale, sum[v][r]);
      if constexpr (has_least(kFormat)) {
        const float codes = load_one<float>(scales + 4 * (kRows + r));
        sum[v][r] = hn::MulAdd(of.least, hn::Set(FloatTag(), codes), sum[v][r]);
      }
    }
  }
}

/// kGroups groups of columns with one set of rows, of which `rows` are there.
template <Format kFormat, int kRows, int kGroups>
void run_groups(const Product& product, const CodedRows& x, int64_t set, Range rows,
                int64_t group) {
  constexpr int kVectors = kGroups * kTileVectors, kWidth = kGroups * static_cast<int>(kGroupRows);
  const std::byte* tile[kGroups];
  int64_t step = 0;  // from a block to the next
  for (int g = 0; g < kGroups; ++g) {
    const TileRun run = tile_run(kFormat, product.n, product.k, group + g);
    tile[g] = product.b.data + run.begin;
    step = run.step;
  }
  FloatVec sum[kVectors][kRows];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[v][r] = hn::Zero(FloatTag());
  }
  const std::byte* codes = x.at(set, 0);
  for (int64_t b = 0; b < x.blocks; ++b, codes += x.block_bytes()) {
    if (kRows == 1) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) fetch_ahead<kFormat>(tile[g]);
    }
    add_block<kFormat, kRows, kGroups>(tile, codes, sum);
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) tile[g] += step;
  }
  HWY_ALIGN float sums[kRows][kWidth];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store(sum[v][r], sums[r] + v * kFloatLanes);
  }
  const int64_t column = group * kGroupRows;
  finish_tile(product.epilogue, sums[0], kWidth, rows.begin, rows.size(), column,
              std::min<int64_t>(kWidth, product.n - column));
}

/// All sets of a slab with the groups of a thread.
template <Format kFormat, int kRows, int kGroups>
void run_slab(const Product& product, const CodedRows& x, Range slab, Range groups) {
  const auto run = [&](int64_t group, auto count) {
    for (int64_t row = slab.begin; row < slab.end; row += kRows)
      run_groups<kFormat, kRows, count()>(product, x, (row - slab.begin) / kRows,
                                          {row, std::min(row + kRows, slab.end)}, group);
  };
  for (int64_t g = groups.begin; g < groups.end;) {
    if (g % kGroups == 0 && g + kGroups <= groups.end) {
      run(g, std::integral_constant<int, kGroups>());
      g += kGroups;
    } else {
      run(g++, std::integral_constant<int, 1>());
    }
  }
}

template <Format kFormat>
void run_format(const Product& product, const CodedRows& x, Range slab, Range groups) {
  constexpr bool kWide = HWY_CAP_GE512;
  switch (x.rows) {
    case 1:
      return run_slab < kFormat, 1, kWide ? 4 : 2 > (product, x, slab, groups);
    case 2:
      return run_slab < kFormat, 2, kWide ? 4 : 1 > (product, x, slab, groups);
#if HWY_CAP_GE512
    case 4:
      return run_slab<kFormat, 4, 2>(product, x, slab, groups);
    default:
      return run_slab<kFormat, 6, 2>(product, x, slab, groups);
#else
    default:
      return run_slab<kFormat, 3, 1>(product, x, slab, groups);
#endif
  }
}

}  // namespace

void run_dot8_part(const Product& product, const CodedRows& x, Range slab, Range groups) {
  switch (x.format) {
    case Format::q8_0:
      return run_format<Format::q8_0>(product, x, slab, groups);
    case Format::q4_0:
      return run_format<Format::q4_0>(product, x, slab, groups);
    default:
      return run_format<Format::q4_1>(product, x, slab, groups);
  }
}

void code_rows(const Product& product, const CodedRows& to, int64_t first, int64_t set,
               Range blocks) {
  if (product.a.dtype == DType::f32)
    code_set<float>(product, to, first, set, blocks);
  else if (product.a.dtype == DType::f16)
    code_set<f16_t>(product, to, first, set, blocks);
  else
    code_set<bf16_t>(product, to, first, set, blocks);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

/// Rows of a set: so many sums stay in registers.
int set_rows(int64_t m, device::Isa isa) {
  if (m <= 2) return static_cast<int>(std::max<int64_t>(m, 1));
  if (isa == device::Isa::avx2) return 3;
  return m <= 4 ? 4 : 6;
}

/// Rows that are coded at a time: the second-level cache keeps them while weights pass.
int64_t slab_rows(const Product& product, int set) {
  constexpr int64_t kSlabBytes = 384 * 1024;
  const int64_t sets = std::clamp<int64_t>(kSlabBytes / (product.k * set), 1, 64);
  return std::min(sets * set, round_up<int64_t>(product.m, set));
}

CodedRows coded_rows(const Product& product, device::Isa isa, std::byte* data) {
  return {product.b.format, set_rows(product.m, isa), product.k / kBlockColumns, data};
}

}  // namespace

int64_t dot8_scratch_bytes(const Product& product, device::Isa isa) {
  const CodedRows rows = coded_rows(product, isa, nullptr);
  return slab_rows(product, rows.rows) / rows.rows * rows.blocks * rows.block_bytes();
}

void run_dot8(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch) {
  constexpr int64_t kCodeGrain = 256, kGroupGrain = 4;  // blocks; groups
  const bool avx2 = isa == device::Isa::avx2;
  const CodedRows x = coded_rows(product, isa, scratch);
  const int64_t step = slab_rows(product, x.rows);
  const auto code = avx2 ? N_AVX2::code_rows : N_AVX3::code_rows;
  const auto run = avx2 ? N_AVX2::run_dot8_part : N_AVX3::run_dot8_part;
  for (int64_t row = 0; row < product.m; row += step) {
    const Range slab{row, std::min(row + step, product.m)};
    const int64_t sets = ceil_div<int64_t>(slab.size(), x.rows);
    // Part of a row, where there is one set; whole sets otherwise.
    if (sets == 1)
      pool.for_range(x.blocks, kCodeGrain / x.rows,
                     [&](Range blocks, int) { code(product, x, row, 0, blocks); });
    else
      pool.for_range(sets, 1, [&](Range some, int) {
        for (int64_t set = some.begin; set < some.end; ++set)
          code(product, x, row, set, {0, x.blocks});
      });
    pool.for_pieces(num_groups(product.n), kGroupGrain,
                    [&](Range groups, int) { run(product, x, slab, groups); });
  }
}

}  // namespace megalith::kernels::matmul
#endif
