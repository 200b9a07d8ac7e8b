// SPDX-License-Identifier: Apache-2.0
// Calls the copy of a kernel that was compiled for the device's instruction set. The layout of a
// source file that has such kernels:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/op/op_cpu.cpp"
//   #include "kernels/elementary/targets.h"
//   #include "hwy/foreach_target.h"
//   #include "kernels/elementary/simd_math-inl.h"  // after foreach_target.h: once per target
//   HWY_BEFORE_NAMESPACE();
//   namespace megalith::kernels::HWY_NAMESPACE {
//   namespace {  // two files may use the same name
//   void some_rows(...) { ... }
//   }  // namespace
//   }  // namespace megalith::kernels::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace megalith::kernels {
//   ... MEGA_CALL_SIMD(exec, some_rows, arguments...);
//   }  // namespace megalith::kernels
//   #endif
//
// A function template defined outside such a region is compiled without AVX2, even when it is
// instantiated inside one: call it only if it does not touch vectors.
#pragma once

#include "device/target.h"

/// Runs N_AVX2::function or N_AVX3::function by `exec.device.target().isa`. Highway's own choice is
/// not used on purpose, because it is global: one process runs both, and tests prove that they
/// agree to the bit.
#define MEGA_CALL_SIMD(exec, function, ...)                                                    \
  ((exec).device.target().isa == ::megalith::device::Isa::avx2 ? N_AVX2::function(__VA_ARGS__) \
                                                               : N_AVX3::function(__VA_ARGS__))
