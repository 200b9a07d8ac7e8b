// SPDX-License-Identifier: Apache-2.0
// The tensor cores' sums in integer vectors, a lane for each of kLanes results: of a group of 32
// products first the largest exponent, then the products' mantissas shifted down to it. The
// accumulator is an f32 between groups, as it is on the card. Codes that are not finite take the
// reference's way.
#include <algorithm>
#include <array>

#include "kernels/elementary/dispatch.h"
#include "kernels/narrow/core_product.h"
#include "math/tensor_core.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow/core_product_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/simd_math-inl.h"

#ifndef MEGA_KERNELS_NARROW_CORE_PRODUCT_CPU_ONCE_
#define MEGA_KERNELS_NARROW_CORE_PRODUCT_CPU_ONCE_
namespace megalith::kernels {

inline constexpr int64_t kLanes = 16, kGroup = 32;
/// Products of a pass over a panel: what stays in the cache, and whole promotions.
inline constexpr int64_t kChunk = 512;
/// The exponent of what is 0: below all others, also when a real one is added.
inline constexpr int32_t kNoExponent = -1000;

/// A code as alignment sees it.
struct CodeParts {
  int32_t exponent, magnitude, sign;  // sign: 0 or -1
};
/// kLanes rows of b, column after column.
struct CorePanel {
  alignas(64) int32_t exponent[kChunk][kLanes];
  alignas(64) int32_t magnitude[kChunk][kLanes];
  alignas(64) int32_t sign[kChunk][kLanes];
};
/// A piece of a row of a; magnitudes in units of the sum.
struct CoreRow {
  int32_t exponent[kChunk], magnitude[kChunk], sign[kChunk];
};

}  // namespace megalith::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;

/// magnitude >> shift, with the sign of a mask. Shifts beyond 31 leave nothing.
HWY_INLINE IntVec aligned(IntVec magnitude, IntVec shift, IntVec sign) {
  const IntVec kept = hn::Shr(magnitude, hn::Min(shift, hn::Set(IntTag(), 31)));
  return hn::Sub(hn::Xor(kept, sign), sign);
}

/// The accumulator after one group, for kFloatLanes results.
HWY_INLINE FloatVec add_group(FloatVec sum, const CoreRow& a, const CorePanel& b, int64_t begin,
                              int64_t lane) {
  const FloatTag df;
  const IntTag di;
  const IntVec bits = hn::BitCast(di, sum);
  const IntVec field = hn::And(hn::ShiftRight<23>(bits), hn::Set(di, 255));
  const auto is_zero = hn::Eq(field, hn::Zero(di));  // denormal it never is
  const IntVec sum_exponent =
      hn::IfThenElse(is_zero, hn::Set(di, kNoExponent), hn::Sub(field, hn::Set(di, 127)));
  IntVec largest = sum_exponent;
  for (int64_t k = begin; k < begin + kGroup; ++k) {
    const IntVec exponent = hn::Load(di, b.exponent[k] + lane);
    largest = hn::Max(largest, hn::Add(exponent, hn::Set(di, a.exponent[k])));
  }
  const IntVec fraction = hn::And(bits, hn::Set(di, 0x7fffff));
  const IntVec significand = hn::IfThenZeroElse(is_zero, hn::Or(fraction, hn::Set(di, 0x800000)));
  const IntVec below = hn::Sub(largest, sum_exponent);
  IntVec total = aligned(significand, hn::Add(below, hn::Set(di, 23 - kHopper8.kept_bits)),
                         hn::ShiftRight<31>(bits));
  for (int64_t k = begin; k < begin + kGroup; ++k) {
    const IntVec shift =
        hn::Sub(hn::Sub(largest, hn::Set(di, a.exponent[k])), hn::Load(di, b.exponent[k] + lane));
    const IntVec magnitude =
        hn::Mul(hn::Set(di, a.magnitude[k]), hn::Load(di, b.magnitude[k] + lane));
    const IntVec sign = hn::Xor(hn::Set(di, a.sign[k]), hn::Load(di, b.sign[k] + lane));
    total = hn::Add(total, aligned(magnitude, shift, sign));
  }
  // Below 2^24, so exact as f32, whose last bits are then cut off; the power is one of f32's.
  const IntVec cut = hn::And(hn::BitCast(di, hn::ConvertTo(df, total)),
                             hn::Set(di, ~((1 << (23 - kHopper8.result_bits)) - 1)));
  const IntVec power =
      hn::Add(hn::Max(largest, hn::Set(di, -100)), hn::Set(di, 127 - kHopper8.kept_bits));
  return hn::Mul(hn::BitCast(df, cut), hn::BitCast(df, hn::ShiftLeft<23>(power)));
}

/// Goes on with kLanes sums over `groups` groups.
void core_chunk(const CoreRow& a, const CorePanel& b, int64_t groups, int64_t promote,
                float* sums) {
  for (int64_t lane = 0; lane < kLanes; lane += kFloatLanes) {
    const FloatTag df;
    FloatVec sum = hn::LoadU(df, sums + lane);
    FloatVec accumulator = promote > 0 ? hn::Zero(df) : sum;
    for (int64_t group = 0; group < groups; ++group) {
      accumulator = add_group(accumulator, a, b, group * kGroup, lane);
      if (promote == 0 || ((group + 1) * kGroup % promote != 0 && group + 1 < groups)) continue;
      sum = hn::Add(sum, accumulator);
      accumulator = hn::Zero(df);
    }
    hn::StoreU(promote > 0 ? sum : accumulator, df, sums + lane);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

bool is_finite_code(DType dtype, uint8_t code) {
  return dtype == DType::f8_e4m3 ? (code & 0x7fu) != 0x7fu : (code & 0x7cu) != 0x7cu;
}

std::array<CodeParts, 256> parts_of_codes(DType dtype) {
  const CoreOperand type = dtype == DType::f8_e4m3 ? kCoreE4m3 : kCoreE5m2;
  std::array<CodeParts, 256> all;
  for (int32_t code = 0; code < 256; ++code) {
    const int32_t field = (code & 0x7f) >> type.mantissa_bits;
    const int32_t mantissa = code & ((1 << type.mantissa_bits) - 1);
    const int32_t magnitude = field > 0 ? mantissa | 1 << type.mantissa_bits : mantissa;
    const int32_t exponent = std::max(field, 1) + type.least_exponent - 1;
    all[static_cast<size_t>(code)] = {magnitude == 0 ? kNoExponent : exponent, magnitude,
                                      code >= 128 ? -1 : 0};
  }
  return all;
}

/// The codes of both operands, and what does not change between rows.
class CoreOperands {
 public:
  explicit CoreOperands(const CoreProduct& a)
      : a_(a), a_parts_(parts_of_codes(a.a_MK.dtype())), b_parts_(parts_of_codes(a.b_NK.dtype())) {
    const auto bits_of = [](DType d) { return d == DType::f8_e4m3 ? 3 : 2; };
    shift_ = kHopper8.kept_bits - bits_of(a.a_MK.dtype()) - bits_of(a.b_NK.dtype());
  }
  /// Part k of row m in a; beyond the end 0.
  void read_row(int64_t m, int64_t begin, CoreRow& row) const {
    for (int64_t k = 0; k < kChunk; ++k) {
      const CodeParts parts = part(a_.a_MK, a_parts_, m, begin + k);
      row.exponent[k] = parts.exponent;
      row.magnitude[k] = parts.magnitude << shift_;
      row.sign[k] = parts.sign;
    }
  }
  void read_panel(int64_t first, int64_t begin, CorePanel& panel) const {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      for (int64_t k = 0; k < kChunk; ++k) {
        const CodeParts parts = part(a_.b_NK, b_parts_, first + lane, begin + k);
        panel.exponent[k][lane] = parts.exponent;
        panel.magnitude[k][lane] = parts.magnitude;
        panel.sign[k][lane] = parts.sign;
      }
    }
  }

 private:
  static CodeParts part(const ConstView& codes, const std::array<CodeParts, 256>& parts,
                        int64_t row, int64_t k) {
    if (row >= codes.size(0) || k >= codes.size(1)) return parts[0];
    return parts[static_cast<uint8_t>(codes.data()[row * codes.row_stride() + k])];
  }

  const CoreProduct& a_;
  std::array<CodeParts, 256> a_parts_, b_parts_;
  int shift_;
};

bool is_finite(const ConstView& codes) {
  for (int64_t row = 0; row < codes.size(0); ++row) {
    for (int64_t k = 0; k < codes.size(1); ++k) {
      const auto code = static_cast<uint8_t>(codes.data()[row * codes.row_stride() + k]);
      if (!is_finite_code(codes.dtype(), code)) return false;
    }
  }
  return true;
}

/// What a thread works with.
struct CoreScratch {
  CorePanel panel;
  CoreRow row;
};

/// Results [M, first to first + kLanes).
void sum_panel(Exec& exec, const CoreProduct& a, const CoreOperands& operands, int64_t first,
               CoreScratch& scratch) {
  const int64_t length = a.a_MK.size(1), lanes = std::min(kLanes, a.b_NK.size(0) - first);
  for (int64_t m = 0; m < a.a_MK.size(0); ++m)
    std::fill_n(a.sum_MN.row<float>(m) + first, lanes, 0.0f);
  for (int64_t begin = 0; begin < length; begin += kChunk) {
    const int64_t groups = (std::min(kChunk, length - begin) + kGroup - 1) / kGroup;
    operands.read_panel(first, begin, scratch.panel);
    for (int64_t m = 0; m < a.a_MK.size(0); ++m) {
      float* const results = a.sum_MN.row<float>(m) + first;
      float sums[kLanes] = {};
      std::copy_n(results, lanes, sums);
      operands.read_row(m, begin, scratch.row);
      MEGA_CALL_SIMD(exec, core_chunk, scratch.row, scratch.panel, groups, a.promote, sums);
      std::copy_n(sums, lanes, results);
    }
  }
}

}  // namespace

int64_t core_product_scratch(const Exec& exec, const CoreProduct&) {
  return exec.device.target().num_threads * static_cast<int64_t>(sizeof(CoreScratch));
}

void core_product_simd(Exec& exec, const CoreProduct& arguments) {
  if (!is_finite(arguments.a_MK) || !is_finite(arguments.b_NK)) {
    return core_product_reference(exec, arguments);
  }
  const CoreOperands operands(arguments);
  const int64_t panels = (arguments.b_NK.size(0) + kLanes - 1) / kLanes;
  auto* const scratch = reinterpret_cast<CoreScratch*>(exec.scratch);
  exec.device.pool().for_range(panels, 1, [&](Range range, int thread) {
    for (int64_t panel = range.begin; panel < range.end; ++panel) {
      sum_panel(exec, arguments, operands, panel * kLanes, scratch[thread]);
    }
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
