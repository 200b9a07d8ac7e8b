// SPDX-License-Identifier: Apache-2.0
// What code runs on. A *kind* says which memory and kernels are used; a *target* says what machine
// the kernels are made for. The `trace` kind runs the same model code for a target without
// computing: kernels record their cost and memory is only counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megalith::device {

/// `queued` is for tests: the cpu's kernels behind a stream, in memory that the host cannot touch
/// (testing/queued_device.h).
enum class DeviceKind : uint8_t { cpu, cuda, trace, queued };

/// Instruction sets with own kernels, in rising order; each includes the ones before.
enum class Isa : uint8_t { avx2, avx512, avx512_bf16 };

std::string_view name_of(DeviceKind kind);
std::string_view name_of(Isa isa);
inline std::string_view format_as(DeviceKind kind) { return name_of(kind); }
inline std::string_view format_as(Isa isa) { return name_of(isa); }

struct Target {
  DeviceKind kind = DeviceKind::cpu;  // cpu or cuda
  Isa isa = Isa::avx2;                // for cpu
  int num_threads = 1;                // for cpu
  bool has_amx = false;               // for cpu: tiles of bf16, which only `fast` may use
  bool has_dot8 = false;              // for cpu: dot products of 8 bits, for `fast` alone
  /// Ranks that are threads of this process and share its address space.
  int ranks_here = 1;
  friend bool operator==(const Target&, const Target&) = default;
};

/// The best instruction set of this machine for our kernels. UserError when it lacks AVX2 or FMA. A
/// CPU whose bf16 instruction is of no use (cpu/bf16_instruction.h) has avx512.
Isa detect_isa();
/// Whether this machine multiplies bytes four at a time (VPDPBUSD) in the vectors of an instruction
/// set: AVX512-VNNI, or AVX-VNNI for those of AVX2.
bool cpu_has_dot8(Isa isa);
/// This machine's CPU, for `num_threads` threads.
Target cpu_target(int num_threads);
/// "AMD EPYC 9654 96-Core Processor"
std::string cpu_name();
/// Bytes of memory this process may use: the machine's, or its cgroup's limit if lower.
int64_t memory_bytes();

}  // namespace megalith::device
