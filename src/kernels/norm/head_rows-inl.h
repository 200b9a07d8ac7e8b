// SPDX-License-Identifier: Apache-2.0
// Heads as rows: what head_norm and whole_norm share. Include after foreach_target.h
// (elementary/dispatch.h).

#include <algorithm>

#include "kernels/attention/heads_view.h"
#include "kernels/norm/norm_rows-inl.h"

#if defined(MEGA_KERNELS_NORM_HEAD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_NORM_HEAD_ROWS_INL_H_
#undef MEGA_KERNELS_NORM_HEAD_ROWS_INL_H_
#else
#define MEGA_KERNELS_NORM_HEAD_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

template <class Row, class Heads>
HWY_INLINE Row head_row(const Heads& heads, int64_t t, int64_t h) {
  return Row(heads.at(t, h), heads.dtype);
}

/// f(X(), Y(), P()) with the row types of activations, results and gamma: typed where all
/// activations and results have one type.
template <class Function>
HWY_INLINE void with_rows(std::initializer_list<DType> activations, DType gamma,
                          const Function& f) {
  const DType dtype = *activations.begin();
  const bool same = std::all_of(activations.begin(), activations.end(),
                                [=](DType other) { return other == dtype; });
  if (same && dtype == DType::f32 && gamma == DType::f32) {
    f(TypedRow<float>(), TypedOutputRow<float>(), TypedRow<float>());
  } else if (same && dtype == DType::bf16 && gamma == DType::bf16) {
    f(TypedRow<bf16_t>(), TypedOutputRow<bf16_t>(), TypedRow<bf16_t>());
  } else if (same && dtype == DType::bf16) {
    f(TypedRow<bf16_t>(), TypedOutputRow<bf16_t>(), TypedRow<float>());
  } else {
    f(AnyRow(), AnyOutputRow(), AnyRow());
  }
}

/// Some columns of a head.
HWY_INLINE void prefetch_columns(const ConstHeadsView& x, int64_t t, int64_t h, Range columns) {
  const std::byte* head = x.at(t, h);
  const int64_t size = bytes_of(x.dtype);
  for (int64_t at = columns.begin * size; at < columns.end * size; at += 64)
    hwy::Prefetch(head + at);
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_NORM_HEAD_ROWS_INL_H_
