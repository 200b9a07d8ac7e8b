// SPDX-License-Identifier: Apache-2.0
// The product of small M: few rows of A (decoding one token for each of a few sequences). A weight
// is used only m times, so weights are read once from memory in their own layout and transposed in
// registers, without packing. Vectors lie along the columns as in gemm.h, each element is the same
// chain, and the bits are the same.
#pragma once

#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

/// True if A has few rows and B[k, n] is contiguous in k.
bool is_small_m(const Product& product);

int64_t small_m_scratch_bytes(const Product& product, device::Isa isa);

/// `scratch` holds that many bytes, aligned to 64.
void run_small_m(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch);

}  // namespace megalith::kernels::matmul
