// SPDX-License-Identifier: Apache-2.0
// Embedding for f32, bf16 and f16. Forward: rows over threads. Backward: columns over threads, each
// going through all tokens in order, so an element's chain has one owner whatever the ids are.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/grain.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/embedding/implementations.h"
#include "tensor/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/embedding_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/any_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

void lookup_rows(const EmbeddingLookup& a, Range range) {
  const int64_t n = a.y_TH.size(1);
  const Vec16 zero = set16(0.0f);
  const ConstView table = a.table_VH;
  for (int64_t t = range.begin; t < range.end; ++t) {
    const int64_t row = local_row(a.ids_T.as<int32_t>()[t], a.vocab_begin, table.size(0));
    const AnyOutputRow y(a.y_TH, t);
    const AnyRow source = row < 0 ? AnyRow() : AnyRow(table, row);
    for_columns(0, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      store_row<kFull>(source ? add16(zero, load_row<kFull>(source, i, n)) : zero, y, i, n);
    });
  }
}

void add_rows(const EmbeddingAddRows& a, Range range) {
  const int64_t n = a.y_TH.size(1);
  for (int64_t t = range.begin; t < range.end; ++t) {
    const int64_t row = local_row(a.ids_T.as<int32_t>()[t], a.first, a.table_RH.size(0));
    if (row < 0) continue;
    const AnyRow source(a.table_RH, row), y_in(a.y_TH, t);
    const AnyOutputRow y(a.y_TH, t);
    for_columns(0, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      store_row<kFull>(add16(load_row<kFull>(y_in, i, n), load_row<kFull>(source, i, n)), y, i, n);
    });
  }
}

void accumulate_columns(const EmbeddingBackward& a, Range columns) {
  const int32_t* ids = a.ids_T.as<int32_t>();
  const int64_t n = columns.end;
  for (int64_t t = 0; t < a.dy_TH.size(0); ++t) {
    const int64_t row = local_row(ids[t], a.vocab_begin, a.dtable_VH.size(0));
    if (row < 0) continue;
    const AnyRow dy(a.dy_TH, t);
    const TypedRow<float> sum(a.dtable_VH, row);
    const TypedOutputRow<float> out(a.dtable_VH, row);
    for_columns(columns.begin, n, [&](int64_t i, auto full) {
      constexpr bool kFull = decltype(full)::value;
      store_row<kFull>(add16(load_row<kFull>(sum, i, n), load_row<kFull>(dy, i, n)), out, i, n);
    });
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kGrainElements = 8192;  // less is not worth another thread

/// One row; zeros where another rank has it.
template <typename T>
void look_up_blocks(const EmbeddingLookup& a, int64_t row, T* y) {
  const Weight& table = a.table_VH;
  const int64_t columns = table.shape[1];
  float values[kBlockColumns] = {};
  for (int64_t b = 0; b < columns / kBlockColumns; ++b) {
    if (row >= 0) widen_block(table, row, b, values);
    for (int64_t i = 0; i < kBlockColumns; ++i) {
      if constexpr (sizeof(T) == sizeof(float))
        y[b * kBlockColumns + i] = 0.0F + values[i];
      else if constexpr (std::is_same_v<T, f16_t>)
        y[b * kBlockColumns + i] = to_f16(0.0F + values[i]);
      else
        y[b * kBlockColumns + i] = to_bf16(0.0F + values[i]);
    }
  }
}

}  // namespace

void embedding_lookup_blocks(Exec& exec, const EmbeddingLookup& a) {
  exec.device.pool().for_range(
      a.y_TH.size(0), row_grain(a.y_TH.size(1), kGrainElements), [&](Range range, int) {
        for (int64_t t = range.begin; t < range.end; ++t) {
          const int64_t row =
              local_row(a.ids_T.as<int32_t>()[t], a.vocab_begin, a.table_VH.shape[0]);
          if (a.y_TH.dtype() == DType::f32)
            look_up_blocks(a, row, a.y_TH.row<float>(t));
          else if (a.y_TH.dtype() == DType::f16)
            look_up_blocks(a, row, a.y_TH.row<f16_t>(t));
          else
            look_up_blocks(a, row, a.y_TH.row<bf16_t>(t));
        }
      });
}

void embedding_lookup_simd(Exec& exec, const EmbeddingLookup& a) {
  exec.device.pool().for_range(
      a.y_TH.size(0), row_grain(a.y_TH.size(1), kGrainElements),
      [&](Range range, int) { MEGA_CALL_SIMD(exec, lookup_rows, a, range); });
}

void embedding_add_positions_simd(Exec& exec, const EmbeddingAddPositions& a) {
  check_positions(a);
  embedding_add_rows_simd(exec, {a.position_T, a.table_SH, 0, a.y_TH});
}

void embedding_add_rows_simd(Exec& exec, const EmbeddingAddRows& a) {
  exec.device.pool().for_range(a.y_TH.size(0), row_grain(a.y_TH.size(1), kGrainElements),
                               [&](Range range, int) { MEGA_CALL_SIMD(exec, add_rows, a, range); });
}

void embedding_backward_simd(Exec& exec, const EmbeddingBackward& a) {
  const int64_t rows = a.dy_TH.size(0);
  if (rows == 0) return;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / rows / 16) * 16;
  exec.device.pool().for_range(a.dy_TH.size(1), grain, [&](Range range, int) {
    MEGA_CALL_SIMD(exec, accumulate_columns, a, range);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
