// SPDX-License-Identifier: Apache-2.0
// How the tensor cores of NVIDIA's Hopper GPUs (H100, H200) add up products, to the bit: found by
// probing them, and equal to what they gave in 172,032 sums of seven pairs of operand types through
// `wgmma` (tests/golden/hopper_test.cpp compares with some of those), and through cuBLAS.
//
// One instruction adds a group of products to an f32 accumulator: 32 products of 8-bit operands, 16
// of bf16 or f16, 8 of tf32. All products of the group and the accumulator are aligned to the
// largest exponent among them and cut off (not rounded) `kept_bits` below it; the sum of what is
// left is exact, whatever the order, and is cut off to `result_bits` of mantissa. For 8-bit
// operands both are 13: the accumulator is an f32 with its last ten bits 0.
//   - The exponent of a product is the sum of its operands' exponents; a product of mantissas may
//     be up to 4, and a denormal operand has its format's least exponent, however many zeros it
//     begins with. Products and accumulators of 0 have no exponent.
//   - A sum of 0 is +0, even of products that are all -0. Beyond f32 it is infinity.
//   - NaN, infinity times 0 and infinities of both signs give NaN with all bits set.
// Known and not known: what happens to accumulators that are denormal f32 was never seen with 8-bit
// operands, whose products cannot make one. `mma.sync` of 8-bit types runs on the 16-bit cores.
#pragma once

#include <cstdint>
#include <span>

namespace megalith {

/// What alignment needs to know of an operand's type.
struct CoreOperand {
  int mantissa_bits;
  int least_exponent;  // of normal numbers
};
inline constexpr CoreOperand kCoreE4m3{3, -6}, kCoreE5m2{2, -14}, kCoreF16{10, -14},
    kCoreBf16{7, -126}, kCoreTf32{10, -126};

/// One instruction.
struct CoreSum {
  int group;  // products
  int kept_bits;
  int result_bits;
};
inline constexpr CoreSum kHopper8{32, 13, 13}, kHopper16{16, 25, 23}, kHopperTf32{8, 25, 23};

/// sum + a[0] b[0] + a[1] b[1] + ...: at most how.group products, fewer are padded with zeros. The
/// operands are numbers of their types.
float core_sum(std::span<const float> a, CoreOperand a_type, std::span<const float> b,
               CoreOperand b_type, float sum, CoreSum how);

/// The sum over all of a and b, group by group in increasing order, beginning at +0. With
/// `promote` > 0 the accumulator is added to an f32 sum (nearest, ties to even) after every
/// `promote` products and begins again: cuBLAS's products of 8-bit types without fast accumulation
/// do so every kHopperPromote.
inline constexpr int64_t kHopperPromote = 128;
float core_dot(std::span<const float> a, CoreOperand a_type, std::span<const float> b,
               CoreOperand b_type, CoreSum how, int64_t promote = 0);

}  // namespace megalith
