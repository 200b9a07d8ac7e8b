// SPDX-License-Identifier: Apache-2.0
// The `fast` product with few rows of A in bf16: dot products along k, as the weights lie in
// memory, by the processor's bf16 dot instruction (VDPBF16PS: pairs of products added in f32).
// Decoding then runs at the speed of memory; the exact kernel (skinny.h) must transpose in
// registers to keep its order of additions.
#pragma once

#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

/// Both operands bf16 and contiguous in k, at most 16 rows of A, on a CPU that has the instruction.
bool is_dot_bf16(const Product& product, device::Isa isa);

/// The sums with their bias, stored as the epilogue's `sums` type, and then its activation. Rows of
/// A and columns of B of any distance. Bits do not depend on the number of threads or rows.
void run_dot_bf16(const Product& product, device::Isa isa, ThreadPool& pool);

}  // namespace megalith::kernels::matmul
