// SPDX-License-Identifier: Apache-2.0
// The `fast` product for few rows of A in bf16: dot products along k, in the order in which the
// weights lie in memory, by the processor's bf16 dot instruction (VDPBF16PS: pairs of products
// added in f32). Decoding then runs at the speed of memory. The exact kernel (small_m.h) must
// transpose in registers to keep its order of additions.
#pragma once

#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {

/// True if both operands are bf16 and contiguous in k, A has at most 16 rows, and the CPU has the
/// instruction.
bool is_dot_bf16(const Product& product, device::Isa isa);

/// Stores the sums with their bias as the epilogue's `sums` type, then their activation. Rows of A
/// and columns of B may lie at any distance. Bits depend neither on the number of threads nor on
/// the number of rows.
void run_dot_bf16(const Product& product, device::Isa isa, ThreadPool& pool);

}  // namespace megalith::kernels::matmul
