// SPDX-License-Identifier: Apache-2.0
// The product with few rows of A (decoding a token of each of a few sequences): every weight is
// used only m times, so the weights are read once from memory, in their own layout, and transposed
// in registers; nothing of them is packed. Vectors lie along the columns as in gemm.h, each element
// is the same chain in increasing k, and the bits are the same.
#pragma once

#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

/// A few rows, and B[k, n] contiguous in k.
bool is_skinny(const Product& product);

int64_t skinny_scratch_bytes(const Product& product, device::Isa isa);

/// `scratch` holds that many bytes, aligned to 64.
void run_skinny(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch);

}  // namespace megalith::kernels::matmul
