// SPDX-License-Identifier: Apache-2.0
#include <cpuid.h>

#include <bit>

#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/fp8_rows_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/matmul/code_tiles-inl.h"
#include "kernels/matmul/few_rows-inl.h"
#include "kernels/matmul/fp8_rows.h"
#include "kernels/matmul/small_m_pack-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace {

/// The chains of a step of a vector of rows, with A's steps from `a` on.
template <PanelForm kForm, int kRows>
HWY_INLINE void add_step(const StepWords& words, const float* a, FloatVec (&sum)[kRows]) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#if HWY_CAP_GE512
    if constexpr (kForm == PanelForm::words) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const WordVec x = hn::Set(WordTag(), std::bit_cast<uint32_t>(a[p * kRows + r]));
        sum[r] = DotPairs::step(x, words.pair[p], sum[r]);
      }
      continue;
    }
#endif
    constexpr int kFirst = kForm == PanelForm::swapped ? 1 : 0;
    add_column<kRows>(float_of(words.pair[p], kFirst), a + 2 * p * kRows, sum);
    add_column<kRows>(float_of(words.pair[p], 1 - kFirst), a + (2 * p + 1) * kRows, sum);
  }
}

template <PanelForm kForm, class LookUp>
struct CodeTiles {
  static constexpr Format kFormat = Format::fp8;
  static constexpr int64_t steps(int64_t k) { return kForm == PanelForm::words ? k / 2 : k; }

  /// Shards are whole steps of columns.
  template <int kRows, int kGroups>
  static HWY_INLINE void run(const Groups<kGroups>& groups, int64_t begin, int64_t end,
                             const float* a, Sums<kRows, kGroups>& sums) {
    constexpr int kVectors = Groups<kGroups>::kVectors;
    // Chains begin and end in memory: nothing moves out or in.
    const FlushDenormals flush(kForm == PanelForm::swapped);
    const LookUp look_up;
    sums.clear();
    a += steps(begin) * kRows;
    for (int64_t k = begin; k < end;) {
      const int64_t block = k / kBlockColumns;
      const std::byte* tile[kGroups];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        tile[g] = groups.tiles[g] + block * groups.step;
        fetch_ahead<kFormat>(tile[g]);
      }
      const int64_t stop = std::min((block + 1) * kBlockColumns, end);
      for (; k < stop; k += kCodeColumns, a += steps(kCodeColumns) * kRows) {
        const int step = static_cast<int>(k % kBlockColumns / kCodeColumns);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const ByteVec codes = load_step(tile[v / kTileVectors], step, v % kTileVectors);
          add_step<kForm>(look_up(codes), a, sums.sum[v]);
        }
      }
    }
  }
};

template <class LookUp>
void run_form(const Product& product, PanelForm form, const std::vector<int>& merges,
              int rows_at_once, const float* a, Range rows, Range groups) {
  using Floats = CodeTiles<PanelForm::floats, LookUp>;
  using Swapped = CodeTiles<PanelForm::swapped, LookUp>;
  if (form == PanelForm::floats)
    return run_tiles<Floats>(product, merges, rows_at_once, a, rows, groups);
#if HWY_CAP_GE512
  using Words = CodeTiles<PanelForm::words, LookUp>;
  if (form == PanelForm::words)
    return run_tiles<Words>(product, merges, rows_at_once, a, rows, groups);
#endif
  run_tiles<Swapped>(product, merges, rows_at_once, a, rows, groups);
}

}  // namespace

void run_fp8_part(const Product& product, PanelForm form, const std::vector<int>& merges,
                  int rows_at_once, const float* a, Range rows, Range groups,
                  [[maybe_unused]] bool wide) {
#if HWY_CAP_GE512
  if (wide) return run_form<WideLookup>(product, form, merges, rows_at_once, a, rows, groups);
#endif
  run_form<NarrowLookup>(product, form, merges, rows_at_once, a, rows, groups);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kGroupsAtOnce = 4;  // of a thread's pieces

bool cpu_has_vbmi() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  // The operating system's consent is covered by the check of the instruction set.
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 1 & 1U) != 0;
}

}  // namespace

bool is_few_fp8(const Product& product) {
  return product.b.format == Format::fp8 && product.m <= kFewRows;
}

int64_t fp8_scratch_bytes(const Product& product, device::Isa isa) {
  return RowPasses::of_codes(product, isa).bytes();
}

bool has_wide_lookup(device::Isa isa) {
  static const bool has_vbmi = cpu_has_vbmi();  // once: a virtual machine traps CPUID
  return isa != device::Isa::avx2 && has_vbmi;
}

void run_fp8(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch,
             bool wide) {
  const bool avx2 = isa == device::Isa::avx2;
  const PanelForm form = panel_form(product, isa);
  const RowPasses passes = RowPasses::of_codes(product, isa);
  float* const packed = reinterpret_cast<float*>(scratch);
  (avx2 ? N_AVX2::pack_small_m : N_AVX3::pack_small_m)(product, form, passes, packed);
  const std::vector<int> merges = shard_merges(product.k_shards);
  const auto run = avx2 ? N_AVX2::run_fp8_part : N_AVX3::run_fp8_part;
  pool.for_pieces(num_groups(product.n), kGroupsAtOnce, [&](Range groups, int) {
    passes.for_each(packed, [&](Range rows, const float* a) {
      run(product, form, merges, passes.rows, a, rows, groups, wide);
    });
  });
}

}  // namespace megalith::kernels::matmul
#endif
