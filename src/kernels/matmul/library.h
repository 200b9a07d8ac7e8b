// SPDX-License-Identifier: Apache-2.0
// The library of matrix products (oneDNN) that `fast` numerics may use, and where it does.
#pragma once

#include <string>

#include "device/target.h"
#include "tensor/dtype.h"

namespace megalith::kernels {

/// Its version at run time: "2.6.3".
std::string library_version();
/// True if it multiplies operands of `dtype` here: bf16 only with AVX-512, and only as far as its
/// own limit (ONEDNN_MAX_CPU_ISA) allows.
bool library_multiplies(DType dtype);
/// The products of many rows that `fast` numerics gives to it: those of instructions that exact
/// arithmetic cannot use. AMX keeps two chains per element; everything else is in our kernels too.
constexpr bool library_is_faster(const device::Target& target, DType dtype) {
  return target.has_amx && dtype == DType::bf16;
}

}  // namespace megalith::kernels
