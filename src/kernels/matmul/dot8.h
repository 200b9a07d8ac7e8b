// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks for `fast` numerics, on CPUs that multiply bytes four at a time
// (VPDPBUSD). Each row of x is rounded to blocks of 32 codes of 8 bits:
//     s = max |x| / 127,  q = x / s to nearest, halves to even
// (0 where max |x| is below 2^-100). The codes of a block of weights and of x multiply exactly, and
// blocks add up in increasing order by one FMA each, of q4_1 two, from 0 without canonical shards:
//     sum = fma(sum_i code_i q_i, round(d s), sum);  sum = fma(m, round(s sum_i q_i), sum)
// `code` less 8 in q4_0. No operation depends on instruction set or threads, so neither do the
// bits; they are others than those of `exact`. A number of x that is not finite makes its whole row
// so, infinite or not a number.
#pragma once

#include "kernels/matmul/gemm.h"
#include "tensor/blocks.h"

namespace megalith::kernels::matmul {

/// Below this, a block of x is zeros.
inline constexpr float kLeastMagnitude = 0x1p-100F;

/// Rows of x as the products read them: sets of rows side by side, of each set block after block
///     codes [rows][32], scales f32 [rows], offsets [rows]
/// An offset is what the sum of a block's products begins with: minus the codes of x times the code
/// of the weights that stands for 0; of q4_1, which has none, the scale times the codes, an f32.
struct CodedRows {
  Format format = Format::q8_0;
  int rows = 1;        // of a set
  int64_t blocks = 0;  // of a row
  std::byte* data = nullptr;

  int64_t block_bytes() const { return rows * (kBlockColumns + 8); }
  std::byte* at(int64_t set, int64_t block) const {
    return data + (set * blocks + block) * block_bytes();
  }
};

int64_t dot8_scratch_bytes(const Product& product, device::Isa isa);

/// `scratch` holds that many bytes, aligned to 64.
void run_dot8(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch);

}  // namespace megalith::kernels::matmul
