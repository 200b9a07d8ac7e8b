// SPDX-License-Identifier: Apache-2.0
// Sums of squares in f64, of blocks and of rows, and the search for what is not finite, for f32,
// bf16 and f16.
#include <algorithm>
#include <atomic>

#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction/norms_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/any_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

using DoubleTag = hn::CappedTag<double, 8>;
constexpr int64_t kDoubleLanes = static_cast<int64_t>(hn::MaxLanes(DoubleTag()));
constexpr int kDoubleParts = 16 / static_cast<int>(kDoubleLanes);

/// sum += x^2, lane by lane.
HWY_INLINE void add_squares(const float* x, hn::Vec<DoubleTag> (&sum)[kDoubleParts]) {
  const hn::Rebind<float, DoubleTag> narrow;
  for (int k = 0; k < kDoubleParts; ++k) {
    const auto v = hn::PromoteTo(DoubleTag(), hn::LoadU(narrow, x + k * kDoubleLanes));
    sum[k] = hn::MulAdd(v, v, sum[k]);
  }
}

double block_squares(const AnyRow& x, int64_t begin, int64_t end) {
  hn::Vec<DoubleTag> sum[kDoubleParts];
  for (int k = 0; k < kDoubleParts; ++k) sum[k] = hn::Zero(DoubleTag());
  int64_t i = begin;
  if (x.dtype == DType::f32) {
    for (; i + 16 <= end; i += 16) add_squares(reinterpret_cast<const float*>(x.data) + i, sum);
  }
  HWY_ALIGN float widened[16];
  for_columns(i, end, [&](int64_t at, auto full) {
    store16(load_row<decltype(full)::value>(x, at, end), widened);
    add_squares(widened, sum);
  });
  HWY_ALIGN double lane[16];
  for (int k = 0; k < kDoubleParts; ++k) hn::Store(sum[k], DoubleTag(), lane + k * kDoubleLanes);
  for (int width = 8; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

void squares_of_blocks(const SumOfSquares& a, Range blocks) {
  const AnyRow x(a.x, 0);
  const int64_t n = a.x.num_elements();
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t begin = block * kSquaresBlock;
    a.partials.as<double>()[block] = block_squares(x, begin, std::min(n, begin + kSquaresBlock));
  }
}

/// tree(lo, hi) of the sums of shards of this width.
float tree_of_shards(const AnyRow& x, int64_t width, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return static_cast<float>(block_squares(x, lo * width, hi * width));
  const int64_t middle = tree_middle(lo, hi);
  return tree_of_shards(x, width, lo, middle) + tree_of_shards(x, width, middle, hi);
}

void squares_of_rows(const RowSquares& a, Range rows) {
  const int64_t width = a.x_TI.size(1) / a.k_shards;
  for (int64_t row = rows.begin; row < rows.end; ++row)
    a.y_T.as<float>()[row] = tree_of_shards(AnyRow(a.x_TI, row), width, 0, a.k_shards);
}

bool is_finite(const ConstView& view, Range range) {
  const AnyRow x(view, 0);
  const WordVec infinity = hn::Set(WordTag(), 0x7f800000u);
  bool finite = true;
  for_columns(range.begin, range.end, [&](int64_t i, auto full) {
    const Vec16 v = load_row<decltype(full)::value>(x, i, range.end);
    for (int k = 0; k < kParts; ++k) {
      const WordVec exponent = hn::And(hn::BitCast(WordTag(), v.part[k]), infinity);
      finite = finite && hn::AllFalse(WordTag(), hn::Eq(exponent, infinity));
    }
  });
  return finite;
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void sum_of_squares_simd(Exec& exec, const SumOfSquares& a) {
  SumOfSquares flat = a;
  flat.x = as_one_row(a.x);
  exec.device.pool().for_range(a.partials.num_elements(), 1, [&](Range range, int) {
    MEGA_CALL_SIMD(exec, squares_of_blocks, flat, range);
  });
}

void row_squares_simd(Exec& exec, const RowSquares& a) {
  const int64_t grain = std::max<int64_t>(1, kSquaresBlock / std::max<int64_t>(1, a.x_TI.size(1)));
  exec.device.pool().for_range(a.x_TI.size(0), grain, [&](Range range, int) {
    MEGA_CALL_SIMD(exec, squares_of_rows, a, range);
  });
}

namespace {

/// A small vector: one pass over the losses of a micro-batch.
bool is_weighted_finite(const float* x, const float* weight, Range range) {
  for (int64_t i = range.begin; i < range.end; ++i) {
    if (weight[i] != 0 && !std::isfinite(x[i])) return false;
  }
  return true;
}

}  // namespace

void all_finite_simd(Exec& exec, const AllFinite& a) {
  const ConstView x = as_one_row(a.x);
  std::atomic<bool> finite = !a.accumulate || *a.flag.as<int32_t>() != 0;
  exec.device.pool().for_range(x.size(1), kSquaresBlock, [&](Range range, int) {
    const bool all = a.weight.absent()
                         ? MEGA_CALL_SIMD(exec, is_finite, x, range)
                         : is_weighted_finite(x.as<float>(), a.weight.as<float>(), range);
    if (!all) finite.store(false, std::memory_order_relaxed);
  });
  *a.flag.as<int32_t>() = finite.load() ? 1 : 0;
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
