// SPDX-License-Identifier: Apache-2.0
// From finished f32 sums to results: bias, activation or its derivative, and the one rounding.
// Element-wise, with the vector functions that the separate operations use. Included once per
// instruction set.
#if defined(MEGA_EPILOGUE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_EPILOGUE_INL_H
#undef MEGA_EPILOGUE_INL_H
#else
#define MEGA_EPILOGUE_INL_H
#endif

#include "kernels/elementwise/activation-inl.h"
#include "kernels/matmul/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

/// Elements [column, column + count) of a row, count <= kFloatLanes, of either type.
HWY_INLINE FloatVec load_any(const ConstView& view, int64_t row, int64_t column, int64_t count) {
  const int64_t at = row * view.row_stride() + column;
  if (view.dtype() == DType::f32) {
    const float* from = reinterpret_cast<const float*>(view.data()) + at;
    return count == kFloatLanes ? load(from) : load_some(from, count);
  }
  const auto load_as = [&]<class T>(const T* from) HWY_ATTR {
    return count == kFloatLanes ? load(from) : load_some(from, count);
  };
  if (view.dtype() == DType::f16) return load_as(reinterpret_cast<const f16_t*>(view.data()) + at);
  return load_as(reinterpret_cast<const bf16_t*>(view.data()) + at);
}

HWY_INLINE void store_any(FloatVec value, const View& view, int64_t row, int64_t column,
                          int64_t count) {
  const int64_t at = row * view.row_stride() + column;
  if (view.dtype() == DType::f32) {
    float* to = reinterpret_cast<float*>(view.data()) + at;
    count == kFloatLanes ? store(value, to) : store_some(value, to, count);
    return;
  }
  const auto store_as = [&]<class T>(T* to) HWY_ATTR {
    count == kFloatLanes ? store(value, to) : store_some(value, to, count);
  };
  if (view.dtype() == DType::f16) return store_as(reinterpret_cast<f16_t*>(view.data()) + at);
  store_as(reinterpret_cast<bf16_t*>(view.data()) + at);
}

/// What storing as `dtype` and loading again gives.
HWY_INLINE FloatVec rounded_as(DType dtype, FloatVec value) {
  if (dtype == DType::bf16) return rounded_to<bf16_t>(value);
  return dtype == DType::f16 ? rounded_to<f16_t>(value) : value;
}

/// The sums of a shard, kRows of each vector of columns, onto a stack of partial sums with `depth`
/// entries, of which `num_merges` are added to them first (shard_merges). Returns the new depth.
template <int kVectors, int kRows, int kWidth>
HWY_INLINE int push_shard(const FloatVec (&sums)[kVectors][kRows], int num_merges,
                          float (*stack)[kRows][kWidth], int depth) {
  static_assert(kWidth == kVectors * kFloatLanes);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      FloatVec sum = sums[v][r];
      for (int i = 1; i <= num_merges; ++i)
        sum = hn::Add(load(stack[depth - i][r] + v * kFloatLanes), sum);
      store(sum, stack[depth - num_merges][r] + v * kFloatLanes);
    }
  }
  return depth + 1 - num_merges;
}

HWY_INLINE FloatVec finish(const Epilogue& e, FloatVec sum, int64_t row, int64_t column,
                           int64_t count) {
  if (e.scale) sum = hn::Mul(sum, hn::Set(FloatTag(), *e.scale.as<float>()));
  if (e.scales) sum = hn::Mul(sum, load_any(e.scales, 0, column, count));
  if (e.add) return hn::Add(load_any(e.out, row, column, count), sum);
  if (e.gradient_at)
    return hn::Mul(sum, activation_grad(e.activation, load_any(e.gradient_at, row, column, count)));
  if (e.bias) sum = hn::Add(sum, load_any(e.bias, 0, column, count));
  if (e.pre_activation) {
    sum = rounded_as(e.pre_activation.dtype(), sum);
    store_any(sum, e.pre_activation, row, column, count);
  } else if (e.activation != Activation::none) {
    sum = rounded_as(e.out.dtype(), sum);
  }
  return activation_value(e.activation, sum);
}

/// Rounds sums and nothing else; `columns` are whole vectors.
template <typename T>
void round_tile(const float* sums, int64_t stride, const View& out, int64_t row, int64_t rows,
                int64_t column, int64_t columns) {
  T* to = reinterpret_cast<T*>(out.data()) + row * out.row_stride() + column;
  for (int64_t r = 0; r < rows; ++r, sums += stride, to += out.row_stride()) {
    for (int64_t c = 0; c < columns; c += kFloatLanes) store(load(sums + c), to + c);
  }
}

/// Sums of `rows` x `columns` elements, `stride` apart (whole vectors may be read), to rows and
/// columns of the result from (row, column) on.
inline void finish_tile(const Epilogue& e, const float* sums, int64_t stride, int64_t row,
                        int64_t rows, int64_t column, int64_t columns) {
  if (e.is_plain() && columns % kFloatLanes == 0) {
    const DType to = e.out.dtype();
    const auto round = to == DType::f32   ? round_tile<float>
                       : to == DType::f16 ? round_tile<f16_t>
                                          : round_tile<bf16_t>;
    return round(sums, stride, e.out, row, rows, column, columns);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; c += kFloatLanes) {
      const int64_t count = columns - c < kFloatLanes ? columns - c : kFloatLanes;
      const FloatVec value = finish(e, load(sums + r * stride + c), row + r, column + c, count);
      store_any(value, e.out, row + r, column + c, count);
    }
  }
}

/// The activation or its derivative over sums that were stored (and rounded) by someone else.
inline void finish_stored(const Epilogue& e, const View& sums, Range rows, Range columns) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = columns.begin; c < columns.end; c += kFloatLanes) {
      const int64_t count = columns.end - c < kFloatLanes ? columns.end - c : kFloatLanes;
      FloatVec value = load_any(sums, r, c, count);
      if (e.gradient_at)
        value = hn::Mul(value, activation_grad(e.activation, load_any(e.gradient_at, r, c, count)));
      else
        value = activation_value(e.activation, value);
      store_any(value, e.out, r, c, count);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
