// SPDX-License-Identifier: Apache-2.0
// Pooled rows for f32, bf16 and f16: columns over threads, each going through all rows in order, so
// an element's chain has one owner however many sequences there are.
#include <algorithm>

#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction/pool_rows_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/any_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// v / count
Vec16 divided(const Vec16& v, int64_t count) {
  const FloatVec by = hn::Set(FloatTag(), static_cast<float>(count));
  Vec16 result;
  for (int k = 0; k < kParts; ++k) result.part[k] = hn::Div(v.part[k], by);
  return result;
}

/// Row u of y from rows [begin, end) of x.
void pool_one(const PoolRowsForward& a, int64_t u, Range rows, Range columns) {
  const TypedOutputRow<float> y(a.y_UH, u);
  const int64_t count = rows.end - rows.begin;
  for_columns(columns.begin, columns.end, [&](int64_t c, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 sum = set16(0.0f);
    for (int64_t t = rows.begin; t < rows.end; ++t)
      sum = add16(sum, load_row<kFull>(AnyRow(a.x_TH, t), c, columns.end));
    store_row<kFull>(count > 1 ? divided(sum, count) : sum, y, c, columns.end);
  });
}

/// Row t of dx from row u of dy; from none: +0.
void spread_one(const PoolRowsBackward& a, int64_t t, int64_t u, int64_t count, Range columns) {
  const AnyOutputRow dx(a.dx_TH, t);
  const TypedRow<float> dy = u < 0 ? TypedRow<float>() : TypedRow<float>(a.dy_UH, u);
  for_columns(columns.begin, columns.end, [&](int64_t c, auto full) {
    constexpr bool kFull = decltype(full)::value;
    Vec16 v = set16(0.0f);
    if (dy) v = load_row<kFull>(dy, c, columns.end);
    store_row<kFull>(count > 1 ? divided(v, count) : v, dx, c, columns.end);
  });
}

void pool_columns(const PoolRowsForward& a, Range columns) {
  const auto* end = a.cu_seqlens.as<int32_t>();
  const int64_t sequences = a.cu_seqlens.num_elements() - 1;
  for (int64_t u = 0; u < a.y_UH.size(0); ++u) {
    Range rows{0, 0};
    if (u < sequences) rows = {end[u], end[u + 1]};
    if (a.pooling == Pooling::first) rows.end = std::min(rows.begin + 1, rows.end);
    if (a.pooling == Pooling::last) rows.begin = std::max(rows.begin, rows.end - 1);
    pool_one(a, u, rows, columns);
  }
}

void spread_columns(const PoolRowsBackward& a, Range columns) {
  const auto* end = a.cu_seqlens.as<int32_t>();
  const int64_t sequences = a.cu_seqlens.num_elements() - 1;
  for (int64_t u = 0; u < sequences; ++u) {
    const Range rows{end[u], end[u + 1]};
    const bool mean = a.pooling == Pooling::mean;
    const int64_t read = a.pooling == Pooling::first ? rows.begin : rows.end - 1;
    for (int64_t t = rows.begin; t < rows.end; ++t)
      spread_one(a, t, mean || t == read ? u : -1, mean ? rows.end - rows.begin : 1, columns);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

/// Columns per thread at least, so that a thread has some thousand elements.
int64_t pool_grain(int64_t rows) {
  constexpr int64_t kGrainElements = 8192;
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, rows) / 16) * 16;
}

}  // namespace

void pool_rows_forward_simd(Exec& exec, const PoolRowsForward& a) {
  exec.device.pool().for_range(a.y_UH.size(1), pool_grain(a.x_TH.size(0)), [&](Range range, int) {
    MEGA_CALL_SIMD(exec, pool_columns, a, range);
  });
}

void pool_rows_backward_simd(Exec& exec, const PoolRowsBackward& a) {
  exec.device.pool().for_range(a.dx_TH.size(1), pool_grain(a.dx_TH.size(0)), [&](Range range, int) {
    MEGA_CALL_SIMD(exec, spread_columns, a, range);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
