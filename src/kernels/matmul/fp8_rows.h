// SPDX-License-Identifier: Apache-2.0
// The product of few rows of A whose B is in fp8 (tensor/blocks.h): decoding. Tiles are read once
// from memory, in order, and widened in registers. The chain is that of the codes' numbers, f32 or
// bf16 as A is; a row's scale multiplies the finished sum. With more rows it is the product of
// gemm.h, whose panels are widened when they are packed (code_tiles-inl.h). The bits are the same.
#pragma once

#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

/// True if A has few rows and B is in fp8.
bool is_few_fp8(const Product& product);

int64_t fp8_scratch_bytes(const Product& product, device::Isa isa);

/// Whether this CPU looks up bytes among 128 (AVX512-VBMI); no bit depends on it.
bool has_wide_lookup(device::Isa isa);

/// `scratch` holds fp8_scratch_bytes(), aligned to 64. `wide`: not more than has_wide_lookup().
void run_fp8(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch,
             bool wide);

}  // namespace megalith::kernels::matmul
