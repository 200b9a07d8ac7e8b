// SPDX-License-Identifier: Apache-2.0
// Blocks widened by vectors of a row's columns. In a tile (tensor/blocks.h) a row's codes are words
// that lie a vector of rows apart: each is put into as many lanes as it has columns, and every lane
// shifts its own code down.
#include <algorithm>
#include <cstring>

#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/narrow/implementations.h"
#include "tensor/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow/widen_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kStepBytes = kGroupRows * 4;  // from a row's word to its next one

struct Words16 {
  WordVec part[kParts];
};

/// Word n of a row's.
HWY_INLINE uint32_t word_at(const std::byte* codes, int64_t n) {
  uint32_t word;
  std::memcpy(&word, codes + n * kStepBytes, sizeof word);
  return word;
}

/// Words first and first + 1 of a row, eight times each.
HWY_INLINE Words16 two_words(const std::byte* codes, int64_t first) {
  Words16 words;
  const uint32_t a = word_at(codes, first), b = word_at(codes, first + 1);
#if HWY_CAP_GE512
  const hn::Half<WordTag> half;
  words.part[0] = hn::Combine(WordTag(), hn::Set(half, b), hn::Set(half, a));
#else
  words.part[0] = hn::Set(WordTag(), a);
  words.part[1] = hn::Set(WordTag(), b);
#endif
  return words;
}

/// Four words from `first` on, four times each.
HWY_INLINE Words16 four_words(const std::byte* codes, int64_t first) {
  Words16 words;
  const auto pair = [&](auto d, int64_t n) HWY_ATTR {
    const hn::Half<decltype(d)> half;
    return hn::Combine(d, hn::Set(half, word_at(codes, n + 1)), hn::Set(half, word_at(codes, n)));
  };
#if HWY_CAP_GE512
  const hn::Half<WordTag> half;
  words.part[0] = hn::Combine(WordTag(), pair(half, first + 2), pair(half, first));
#else
  words.part[0] = pair(WordTag(), first);
  words.part[1] = pair(WordTag(), first + 2);
#endif
  return words;
}

/// Columns [16 n, 16 n + 16) of a block of a row, whose words begin at `codes`.
template <Format kFormat>
HWY_INLINE Vec16 widen16(const std::byte* codes, int64_t n, float scale, float least) {
  constexpr bool kBytes = has_bytes(kFormat);
  constexpr uint32_t kMask = kBytes ? 0xff : 0xf;
  constexpr float kZeroCode = kBytes ? 128.0F : kFormat == Format::q4_0 ? 8.0F : 0.0F;
  HWY_ALIGN static constexpr uint32_t kOfBytes[16] = {0, 8, 16, 24, 0, 8, 16, 24,
                                                      0, 8, 16, 24, 0, 8, 16, 24};
  HWY_ALIGN static constexpr uint32_t kOfHalves[16] = {0, 8, 16, 24, 4, 12, 20, 28,
                                                       0, 8, 16, 24, 4, 12, 20, 28};
  const uint32_t* const shifts = kBytes ? kOfBytes : kOfHalves;
  const Words16 words = kBytes ? four_words(codes, 4 * n) : two_words(codes, 2 * n);
  const hn::RebindToSigned<WordTag> of_codes;
  Vec16 values;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) {
    const WordVec shift = hn::Load(WordTag(), shifts + i * kFloatLanes);
    const WordVec code = hn::And(hn::Shr(words.part[i], shift), hn::Set(WordTag(), kMask));
    const FloatVec number = hn::Sub(hn::ConvertTo(FloatTag(), hn::BitCast(of_codes, code)),
                                    hn::Set(FloatTag(), kZeroCode));
    const FloatVec by = hn::Set(FloatTag(), scale);
    values.part[i] = has_least(kFormat) ? hn::MulAdd(by, number, hn::Set(FloatTag(), least))
                                        : hn::Mul(by, number);
  }
  return values;
}

template <Format kFormat, class T>
void widen_groups(const Widen& a, Range groups) {
  const int64_t rows = a.w_OI.shape[0], columns = a.w_OI.shape[1];
  HWY_ALIGN float scale[kGroupRows];
  HWY_ALIGN float least[kGroupRows] = {};
  for (int64_t group = groups.begin; group < groups.end; ++group) {
    const TileRun run = tile_run(kFormat, rows, columns, group);
    const int64_t before = group * kGroupRows;
    const int64_t lanes_from = std::max<int64_t>(0, a.first - before);
    const int64_t lanes_to = std::min(kGroupRows, a.first + a.y_TI.size(0) - before);
    for (int64_t block = 0; block < columns / kBlockColumns; ++block) {
      const std::byte* const tile = a.w_OI.view.data() + run.begin + block * run.step;
      const auto* const halves = reinterpret_cast<const f16_t*>(tile);
      store16(load16(halves), scale);
      if (has_least(kFormat)) store16(load16(halves + kGroupRows), least);
      for (int64_t lane = lanes_from; lane < lanes_to; ++lane) {
        const std::byte* const codes = tile + tile_codes_at(kFormat) + 4 * lane;
        T* const to = a.y_TI.row<T>(before + lane - a.first) + block * kBlockColumns;
        for (int64_t n = 0; n < 2; ++n)
          store16(widen16<kFormat>(codes, n, scale[lane], least[lane]), to + 16 * n);
      }
    }
  }
}

template <Format kFormat>
void widen_groups_to(const Widen& a, Range groups) {
  switch (a.y_TI.dtype()) {
    case DType::f32:
      return widen_groups<kFormat, float>(a, groups);
    case DType::bf16:
      return widen_groups<kFormat, bf16_t>(a, groups);
    default:
      return widen_groups<kFormat, f16_t>(a, groups);
  }
}

void widen_groups_of(const Widen& a, Range groups) {
  switch (a.w_OI.format) {
    case Format::q8_0:
      return widen_groups_to<Format::q8_0>(a, groups);
    case Format::q4_0:
      return widen_groups_to<Format::q4_0>(a, groups);
    default:
      return widen_groups_to<Format::q4_1>(a, groups);
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void widen_simd(Exec& exec, const Widen& arguments) {
  constexpr int64_t kGrainElements = 32768;  // less is not worth another thread
  const int64_t first = arguments.first / kGroupRows;
  const int64_t groups = num_groups(arguments.first + arguments.y_TI.size(0)) - first;
  const int64_t grain =
      std::max<int64_t>(1, kGrainElements / (kGroupRows * arguments.w_OI.shape[1]));
  exec.device.pool().for_range(groups, grain, [&](Range range, int) {
    const Range taken{first + range.begin, first + range.end};
    MEGA_CALL_SIMD(exec, widen_groups_of, arguments, taken);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
