// SPDX-License-Identifier: Apache-2.0
// The few rows of A side by side, step by step in a form of gemm.h. Included once per instruction
// set.
#if defined(MEGA_SMALL_M_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_SMALL_M_PACK_INL_H
#undef MEGA_SMALL_M_PACK_INL_H
#else
#define MEGA_SMALL_M_PACK_INL_H
#endif

#include <algorithm>
#include <bit>

#include "kernels/matmul/pack-inl.h"
#include "kernels/matmul/row_passes.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {

/// The steps of `k` elements of one row, `distance` floats apart.
template <typename T, PanelForm kForm>
void pack_row(const T* from, int64_t k, int64_t distance, float* out) {
  if constexpr (kForm == PanelForm::floats) {
    for (int64_t i = 0; i < k; ++i) out[i * distance] = to_f32(from[i]);
  } else {
    for (int64_t i = 0; i < k; i += 2) {
      const T even = from[i], odd = i + 1 < k ? from[i + 1] : T{};
      if constexpr (kForm == PanelForm::words) {
        const uint32_t word = even.bits | static_cast<uint32_t>(odd.bits) << 16;
        out[i / 2 * distance] = std::bit_cast<float>(word);
      } else {
        out[i * distance] = to_f32(odd);
        out[(i + 1) * distance] = to_f32(even);
      }
    }
  }
}

/// All rows of A, pass by pass; those beyond the last are 0.
template <typename T, PanelForm kForm>
void pack_rows(const Product& product, const RowPasses& passes, float* out) {
  const T* from = reinterpret_cast<const T*>(product.a.data);
  const int64_t width = product.k / product.k_shards, steps = steps_of<kForm>(width);
  for (int64_t row = 0; row < product.m; row += passes.rows, out += passes.distance) {
    const int64_t rows = std::min<int64_t>(passes.rows, product.m - row);
    if (rows < passes.rows) std::fill_n(out, product.k_shards * steps * passes.rows, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t shard = 0; shard < product.k_shards; ++shard)
        pack_row<T, kForm>(from + (row + r) * product.a.stride + shard * width, width, passes.rows,
                           out + shard * steps * passes.rows + r);
    }
  }
}

inline void pack_small_m(const Product& product, PanelForm form, const RowPasses& passes,
                         float* out) {
  if (product.a.dtype == DType::f32)
    pack_rows<float, PanelForm::floats>(product, passes, out);
  else if (product.a.dtype == DType::f16)
    pack_rows<f16_t, PanelForm::floats>(product, passes, out);
  else if (form == PanelForm::floats)
    pack_rows<bf16_t, PanelForm::floats>(product, passes, out);
  else if (form == PanelForm::words)
    pack_rows<bf16_t, PanelForm::words>(product, passes, out);
  else
    pack_rows<bf16_t, PanelForm::swapped>(product, passes, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
