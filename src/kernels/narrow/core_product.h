// SPDX-License-Identifier: Apache-2.0
// Sums of products of 8-bit codes as a Hopper GPU's tensor cores give them (math/tensor_core.h):
// the implementations behind scaled_product.cpp. Arguments have been checked.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

struct CoreProduct {
  ConstView a_MK, b_NK;
  View sum_MN;      // f32, overwritten
  int64_t promote;  // products after which an f32 sum takes the accumulator, or 0; whole groups
};
void core_product_simd(Exec& exec, const CoreProduct& arguments);
int64_t core_product_scratch(const Exec& exec, const CoreProduct& arguments);
void core_product_reference(Exec& exec, const CoreProduct& arguments);

}  // namespace megalith::kernels
