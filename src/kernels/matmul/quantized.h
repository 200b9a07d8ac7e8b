// SPDX-License-Identifier: Apache-2.0
// The product whose B is quantised (q8_0: tensor/q8_0.h), in the block chain of linear.h. Weights
// are read once from memory in their own layout: a strip of some blocks of 16 or 8 columns is
// transposed and widened into the first-level cache, and serves all rows from there. Rows of B a
// multiple of 4 KiB apart share a set of that cache and cost a sixth of the rate: whoever places
// such weights may leave a cache line between them.
#pragma once

#include "kernels/matmul/gemm.h"
#include "tensor/q8_0.h"

namespace megalith::kernels::matmul {

inline constexpr int kCodes = static_cast<int>(kQ8BlockCodes);  // of a block
inline constexpr int64_t kScaleBytes = sizeof(f16_t);
inline constexpr int kStripBlocks = 8;
/// Rows of A that a strip serves; more rows are more walks over B.
inline constexpr int64_t kSlabRows = 64;

/// A as packed for the chains: `at_once` rows side by side, passes `pass_floats` apart.
struct PackedRows {
  PanelForm form = PanelForm::floats;
  int at_once = 1;
  int64_t pass_floats = 0;
  float* steps = nullptr;  // [pass][step][at_once]
};

inline bool is_quantized(const Product& product) { return product.b_scales.data != nullptr; }

int64_t quantized_scratch_bytes(const Product& product, device::Isa isa);

/// `scratch` holds that many bytes, aligned to 64.
void run_quantized(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch);

}  // namespace megalith::kernels::matmul
