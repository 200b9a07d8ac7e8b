// SPDX-License-Identifier: Apache-2.0
// Whether kernels multiply bf16 by this CPU's VDPBF16PS, which must compute the bf16 chain of
// math/bf16_chain.h and be faster than the two FMAs that it stands for.
#pragma once

#include <cstdint>
#include <string_view>

namespace megalith::device {

bool cpu_has_bf16_instruction();

/// 16 sums and their 16 pairs of bf16 operands, the even element of a pair in the low half of a
/// word: what one VDPBF16PS works on.
struct PairsOf16 {
  uint32_t a[16];
  uint32_t b[16];
  float sum[16];
};

/// sum[i] after the instruction. Only where the CPU has AVX512-BF16.
void add_pairs_by_instruction(PairsOf16& pairs);
/// The same by the specification, on any CPU.
void add_pairs_by_chain(PairsOf16& pairs);

/// Operands of every class: ordinary numbers, such as overflow, underflow or cancel, denormals,
/// zeros of both signs, infinities. The same for equal `number`.
PairsOf16 drawn_pairs(uint64_t number);

/// Compares two thousand drawn sums, once per process; false where the CPU lacks the instruction.
bool bf16_instruction_is_the_chain();

/// True on the CPUs of a maker ("AuthenticAMD") whose instruction outruns two FMAs.
bool bf16_instruction_is_fast(std::string_view maker);

/// Why kernels use FMA here; empty where they use the instruction. The first call says in the log
/// if this CPU's instruction computes something else.
std::string_view bf16_instruction_refused();

}  // namespace megalith::device
