// SPDX-License-Identifier: Apache-2.0
#include "device/target.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/available_memory.h"
#include "device/cpu/bf16_instruction.h"

namespace megalith::device {
namespace {

/// Tiles of bf16, and an operating system that keeps them (bits 17 and 18 of XCR0).
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool reads_xcr0 = __get_cpuid(1, &a, &b, &c, &d) != 0 && ((c >> 27) & 1u) != 0;
  if (!reads_xcr0 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool has_tiles = ((d >> 24) & 1u) != 0 && ((d >> 22) & 1u) != 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return has_tiles && ((low >> 17) & 3u) == 3;
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::trace:
      return "trace";
    case DeviceKind::queued:
      return "queued";
  }
  return "unknown";
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

Isa detect_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    throw UserError(
        "this processor ({}) lacks AVX2 or FMA, which every kernel needs; use a newer x86-64 "
        "machine",
        cpu_name());
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (!avx512) return Isa::avx2;
  return bf16_instruction_refused().empty() ? Isa::avx512_bf16 : Isa::avx512;
}

bool cpu_has_dot8(Isa isa) {
  if (isa > detect_isa()) return false;
  unsigned a = 0, b = 0, c = 0, d = 0;
  // The operating system's consent is covered by the check of the instruction set.
  if (isa != Isa::avx2) return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 11 & 1U) != 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1U) != 0;
}

Target cpu_target(int num_threads) {
  const Isa isa = detect_isa();
  return {
      .isa = isa, .num_threads = num_threads, .has_amx = has_amx(), .has_dot8 = cpu_has_dot8(isa)};
}

std::string cpu_name() {
  unsigned brand[12] = {};
  if (static_cast<unsigned>(__get_cpuid_max(0x80000000u, nullptr)) < 0x80000004u)
    return "unknown x86-64 processor";
  for (unsigned i = 0; i < 3; ++i) {
    __get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2],
                &brand[4 * i + 3]);
  }
  char text[49] = {};
  std::memcpy(text, brand, 48);
  std::string name(text);
  const size_t begin = name.find_first_not_of(' ');
  const size_t end = name.find_last_not_of(' ');
  return begin == std::string::npos ? "unknown x86-64 processor"
                                    : name.substr(begin, end - begin + 1);
}

int64_t memory_bytes() {
  const AvailableMemory memory = available_memory();
  return std::min(memory.machine, memory.group.value_or(memory.machine));
}

}  // namespace megalith::device
