// SPDX-License-Identifier: Apache-2.0
// The product of few rows of A whose B is in blocks (tensor/blocks.h), in the f32 chain of the
// widened values: decoding. Tiles are read once from memory, in order, and widened in registers,
// where a weight meets its row of each sequence. With more rows it is the product of gemm.h, whose
// panels are widened when they are packed (quantized_tile-inl.h). The bits are the same.
#pragma once

#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

/// True if A has few rows and B is in blocks with scales of their own.
bool is_few_quantized(const Product& product);

int64_t quantized_scratch_bytes(const Product& product, device::Isa isa);

/// `scratch` holds that many bytes, aligned to 64.
void run_quantized(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch);

}  // namespace megalith::kernels::matmul
