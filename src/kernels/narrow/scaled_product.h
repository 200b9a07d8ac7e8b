// SPDX-License-Identifier: Apache-2.0
// The product of two matrices of 8-bit codes that have one scale each.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// How the products of codes add up.
///   exact     the codes widened to bf16 (each is one), in the arithmetic of linear.h
///   hopper    as an H100 does with fast accumulation (math/tensor_core.h): one chain over all of
///             K, to study what a GPU's sums do to a recipe
///   hopper_promoted   the same without fast accumulation: an f32 sum every 128 products
enum class Accumulate : uint8_t { exact, hopper, hopper_promoted };

/// y = fl32(sum_k a[m, k] b[n, k] * fl32(a_scale * b_scale)), rounded once more where y is bf16:
/// with `hopper` the bits of cuBLAS. a_MK and b_NK are f8_e4m3 or f8_e5m2, contiguous; the scales
/// are f32 [1], the inverses of those that the codes were made by; y_MN is f32 or bf16, contiguous,
/// and overwritten. Scratch: with `exact` two bytes for each code; four for each result where y is
/// bf16. Local; ready as of a later ticket.
struct ScaledProduct {
  ConstView a_MK;
  ConstView b_NK;
  ConstView a_scale;
  ConstView b_scale;
  View y_MN;
  Accumulate accumulate = Accumulate::exact;
  int k_shards = 1;  // exact: divides K
};
void scaled_product(Exec& exec, const ScaledProduct& arguments);

}  // namespace megalith::kernels
