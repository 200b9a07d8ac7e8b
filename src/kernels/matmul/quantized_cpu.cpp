// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/quantized_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/elementary/bf16_chain-inl.h"
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/quantized.h"
#include "kernels/matmul/quantized_strip-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace {

/// The chains of kBlocks blocks with kRows rows, side by side because a chain waits for its own
/// last sum: sums[block][row][lane].
template <PanelForm kForm, int kBlocks, int kRows>
HWY_INLINE void run_chains(const float* strip, const float* a, float* sums) {
  constexpr int kSteps = kBlockSteps<kForm>;
  FloatVec sum[kBlocks][kRows];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[b][r] = hn::Zero(FloatTag());
  }
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      const FloatVec code = hn::Load(FloatTag(), strip + (b * kSteps + step) * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const FloatVec x = hn::Set(FloatTag(), a[(b * kSteps + step) * kRows + r]);
#if HWY_CAP_GE512
        if constexpr (kForm == PanelForm::words) {
          sum[b][r] =
              DotPairs::step(hn::BitCast(WordTag(), x), hn::BitCast(WordTag(), code), sum[b][r]);
          continue;
        }
#endif
        sum[b][r] = hn::MulAdd(x, code, sum[b][r]);
      }
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      hn::Store(sum[b][r], FloatTag(), sums + (b * kRows + r) * kLanes);
  }
}

/// The chains of a strip with kRows rows. Not inlined: all its arithmetic is between the two ends
/// of FlushDenormals.
template <PanelForm kForm, int kRows>
HWY_NOINLINE void run_strip(const Strip& strip, int blocks, const float* a, float* sums) {
  constexpr int kBlocks = std::max(1, 8 / kRows), kSteps = kBlockSteps<kForm>;
  int b = 0;
  for (; b + kBlocks <= blocks; b += kBlocks)
    run_chains<kForm, kBlocks, kRows>(strip.steps + b * kSteps * kLanes, a + b * kSteps * kRows,
                                      sums + b * kRows * kLanes);
  for (; b < blocks; ++b)
    run_chains<kForm, 1, kRows>(strip.steps + b * kSteps * kLanes, a + b * kSteps * kRows,
                                sums + b * kRows * kLanes);
}

/// With one pass of A. Not inlined: no other arithmetic is there.
template <PanelForm kForm>
HWY_NOINLINE void run_pass(const Strip& strip, int blocks, int rows, const float* a, float* sums) {
  constexpr int kMostRows = HWY_CAP_GE512 ? 16 : 8;
  const FlushDenormals flush(kForm == PanelForm::swapped);
  switch (rows) {
    case 1:
      return run_strip<kForm, 1>(strip, blocks, a, sums);
    case 2:
      return run_strip<kForm, 2>(strip, blocks, a, sums);
    case 4:
      return run_strip<kForm, 4>(strip, blocks, a, sums);
    case 8:
      return run_strip<kForm, 8>(strip, blocks, a, sums);
    default:
      return run_strip<kForm, kMostRows>(strip, blocks, a, sums);
  }
}

/// Each row's accumulators go on with the sums of `blocks` blocks times their scales, in order.
HWY_INLINE void add_scaled(const Strip& strip, int blocks, int rows, const float* sums,
                           float (*accumulators)[kLanes]) {
  for (int r = 0; r < rows; ++r) {
    FloatVec acc = hn::Load(FloatTag(), accumulators[r]);
    for (int b = 0; b < blocks; ++b)
      acc = hn::MulAdd(hn::Load(FloatTag(), strip.scales[b]),
                       hn::Load(FloatTag(), sums + (b * rows + r) * kLanes), acc);
    hn::Store(acc, FloatTag(), accumulators[r]);
  }
}

/// `blocks` of kLanes columns with all rows of a slab.
template <PanelForm kForm>
void run_shard(const StripRows& from, const PackedRows& a, int64_t rows, Range blocks,
               float (*accumulators)[kLanes]) {
  Strip strip;
  HWY_ALIGN float sums[kStripBlocks * 16 * kLanes];
  std::fill_n(accumulators[0], rows * kLanes, 0.0f);
  for (int64_t b = blocks.begin; b < blocks.end; b += kStripBlocks) {
    const int count = static_cast<int>(std::min<int64_t>(kStripBlocks, blocks.end - b));
    widen_strip<kForm>(from, b, count, strip);
    const float* steps = a.steps + b * kBlockSteps<kForm> * a.at_once;
    for (int64_t row = 0; row < rows; row += a.at_once, steps += a.pass_floats) {
      run_pass<kForm>(strip, count, a.at_once, steps, sums);
      add_scaled(strip, count, a.at_once, sums, accumulators + row);
    }
  }
}

/// kLanes columns, `num_columns` of which are there: the tree over the shards runs on a stack.
template <PanelForm kForm>
void run_columns(const Product& product, const std::vector<int>& merges, const PackedRows& a,
                 Range rows, int64_t column, int64_t num_columns) {
  HWY_ALIGN float stack[kMaxLevels][kSlabRows][kLanes];
  const StripRows from(product, column);
  const int64_t width = product.k / kCodes / product.k_shards;
  int depth = 0;
  for (int shard = 0; shard < product.k_shards; ++shard) {
    run_shard<kForm>(from, a, round_up<int64_t>(rows.size(), a.at_once),
                     {shard * width, (shard + 1) * width}, stack[depth]);
    const int num_merges = merges[static_cast<size_t>(shard)];
    for (int i = 1; i <= num_merges; ++i) {
      for (int64_t r = 0; r < rows.size(); ++r) {
        const FloatVec older = load(stack[depth - i][r]), newer = load(stack[depth - i + 1][r]);
        store(hn::Add(older, newer), stack[depth - i][r]);
      }
    }
    depth += 1 - num_merges;
  }
  finish_tile(product.epilogue, stack[0][0], kLanes, rows.begin, rows.size(), column, num_columns);
}

}  // namespace

void run_quantized_part(const Product& product, const std::vector<int>& merges, const PackedRows& a,
                        Range rows, Range columns) {
  for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, columns.end - c);
    if (a.form == PanelForm::floats)
      run_columns<PanelForm::floats>(product, merges, a, rows, c, count);
    else if (a.form == PanelForm::swapped)
      run_columns<PanelForm::swapped>(product, merges, a, rows, c, count);
#if HWY_CAP_GE512
    else
      run_columns<PanelForm::words>(product, merges, a, rows, c, count);
#endif
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

PackedRows packing_of(const Product& product, device::Isa isa) {
  PackedRows a;
  const int64_t most = isa == device::Isa::avx2 ? 8 : 16;
  a.form = panel_form(product, isa);
  a.at_once = static_cast<int>(std::min<int64_t>(
      most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(product.m)))));
  const int64_t steps = a.form == PanelForm::words ? product.k / 2 : product.k;
  a.pass_floats = round_up<int64_t>(steps * a.at_once, 16);
  return a;
}

int64_t passes(const PackedRows& a, int64_t rows) { return ceil_div<int64_t>(rows, a.at_once); }

/// Blocks of k of one row, steps `a.at_once` floats apart.
template <typename T>
void pack_row(const PackedRows& a, const T* from, Range blocks, float* out) {
  for (int64_t k = blocks.begin * kCodes; k < blocks.end * kCodes; k += 2) {
    if constexpr (sizeof(T) == sizeof(bf16_t)) {
      if (a.form == PanelForm::words) {
        const uint32_t word = from[k].bits | static_cast<uint32_t>(from[k + 1].bits) << 16;
        out[k / 2 * a.at_once] = std::bit_cast<float>(word);
        continue;
      }
    }
    const int64_t first = a.form == PanelForm::swapped ? 1 : 0;
    out[(k + first) * a.at_once] = to_f32(from[k]);
    out[(k + 1 - first) * a.at_once] = to_f32(from[k + 1]);
  }
}

/// Rows of a slab; those beyond the last repeat it.
template <typename T>
void pack_rows(const Product& product, const PackedRows& a, Range rows, ThreadPool& pool) {
  constexpr int64_t kGrain = 2048;  // blocks
  const T* from = reinterpret_cast<const T*>(product.a.data);
  pool.for_range(product.k / kCodes, std::max<int64_t>(1, kGrain / rows.size()),
                 [&](Range blocks, int) {
                   for (int64_t r = 0; r < passes(a, rows.size()) * a.at_once; ++r)
                     pack_row(a, from + std::min(rows.begin + r, rows.end - 1) * product.a.stride,
                              blocks, a.steps + r / a.at_once * a.pass_floats + r % a.at_once);
                 });
}

}  // namespace

int64_t quantized_scratch_bytes(const Product& product, device::Isa isa) {
  const PackedRows a = packing_of(product, isa);
  return 4 * a.pass_floats * passes(a, std::min(kSlabRows, product.m));
}

void run_quantized(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch) {
  PackedRows a = packing_of(product, isa);
  a.steps = reinterpret_cast<float*>(scratch);
  const std::vector<int> merges = shard_merges(product.k_shards);
  const auto run =
      isa == device::Isa::avx2 ? N_AVX2::run_quantized_part : N_AVX3::run_quantized_part;
  for (int64_t row = 0; row < product.m; row += kSlabRows) {
    const Range rows{row, std::min(row + kSlabRows, product.m)};
    if (product.a.dtype == DType::f32)
      pack_rows<float>(product, a, rows, pool);
    else
      pack_rows<bf16_t>(product, a, rows, pool);
    pool.for_pieces(product.n, 64,
                    [&](Range columns, int) { run(product, merges, a, rows, columns); });
  }
}

}  // namespace megalith::kernels::matmul
#endif
