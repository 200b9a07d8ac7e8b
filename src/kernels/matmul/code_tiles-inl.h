// SPDX-License-Identifier: Apache-2.0
// Tiles of weights in fp8 (tensor/blocks.h) widened in registers. A code of e4m3 is a bf16 number,
// whose two bytes are looked up: all 64 or 32 codes of a step at once, and interleaving them makes
// the words that the bf16 chain multiplies, or halves of words that are floats. Shifts and
// additions would take twice the instructions, and denormal codes another way. Included once per
// instruction set.
#if defined(MEGA_CODE_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_CODE_TILES_INL_H
#undef MEGA_CODE_TILES_INL_H
#else
#define MEGA_CODE_TILES_INL_H
#endif

#include "kernels/elementary/bf16_chain-inl.h"
#include "kernels/matmul/code_bytes.h"
#include "kernels/matmul/tiles-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::Repartition<uint8_t, WordTag>;
using ByteVec = hn::VFromD<ByteTag>;

/// Columns 0 and 1 of a step as words of bf16, and columns 2 and 3: of kFloatLanes rows.
struct StepWords {
  WordVec pair[2];
};

HWY_INLINE StepWords words_of(ByteVec low, ByteVec high) {
  const ByteTag d;
  return {{hn::BitCast(WordTag(), hn::InterleaveLower(d, low, high)),
           hn::BitCast(WordTag(), hn::InterleaveUpper(d, low, high))}};
}

/// Among 16 bytes, which every CPU here does: 16 codes that begin with the same three bits of the
/// exponent differ in their low half alone; those whose three bits are zeros, denormals among them,
/// have a table of their own.
class NarrowLookup {
 public:
  HWY_INLINE NarrowLookup()
      : low_(hn::LoadDup128(ByteTag(), kCodeBytes.low)),
        high_(hn::LoadDup128(ByteTag(), kCodeBytes.high)) {}

  HWY_INLINE StepWords operator()(ByteVec codes) const {
    const ByteTag d;
    const hn::Repartition<uint16_t, ByteTag> d16;
    const ByteVec half = hn::Set(d, 0x0f), sign = hn::Set(d, 0x80);
    const ByteVec rest = hn::And(codes, half);
    const ByteVec upper =
        hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, codes))), hn::Set(d, 0x07));
    // Exponents of bf16 are 120 more; their lowest bit is in the other byte.
    ByteVec low = hn::BitCast(d, hn::ShiftLeft<4>(hn::BitCast(d16, rest)));
    ByteVec high = hn::Add(upper, hn::Set(d, 60));
    const auto is_least = hn::Eq(upper, hn::Zero(d));
    low = hn::IfThenElse(is_least, hn::TableLookupBytes(low_, rest), low);
    high = hn::IfThenElse(is_least, hn::TableLookupBytes(high_, rest), high);
    // 0x7f is not a number.
    const ByteVec not_a_number = hn::VecFromMask(d, hn::Eq(hn::Or(codes, sign), hn::Set(d, 0xff)));
    low = hn::AndNot(hn::And(not_a_number, hn::Set(d, 0x30)), low);
    high = hn::Or(high, hn::And(not_a_number, hn::Set(d, 0x7f)));
    return words_of(low, hn::Or(high, hn::And(codes, sign)));
  }

 private:
  ByteVec low_, high_;  // of codes 0 to 15
};

#if HWY_CAP_GE512
/// Among 128 bytes, for CPUs that has_wide_lookup() finds. As assembler, because a function that
/// may use the instruction everywhere would be wrong on other CPUs.
class WideLookup {
 public:
  HWY_INLINE WideLookup()
      : low_{hn::LoadU(ByteTag(), kCodeBytes.low), hn::LoadU(ByteTag(), kCodeBytes.low + 64)},
        high_{hn::LoadU(ByteTag(), kCodeBytes.high), hn::LoadU(ByteTag(), kCodeBytes.high + 64)} {}

  HWY_INLINE StepWords operator()(ByteVec codes) const {
    const ByteVec high = look_up(high_, codes);
    return words_of(look_up(low_, codes), hn::OrAnd(high, codes, hn::Set(ByteTag(), 0x80)));
  }

 private:
  /// By the low seven bits.
  static HWY_INLINE ByteVec look_up(const ByteVec (&table)[2], ByteVec codes) {
    auto index = codes.raw;
    asm("vpermi2b %2, %1, %0" : "+v"(index) : "v"(table[0].raw), "v"(table[1].raw));
    return ByteVec{index};
  }
  ByteVec low_[2], high_[2];
};
#endif

/// Codes of step `step` of vector `v` of a tile.
HWY_INLINE ByteVec load_step(const std::byte* tile, int step, int v) {
  const std::byte* const from = tile + (step * kGroupRows + v * kFloatLanes) * kCodeColumns;
  return hn::LoadU(ByteTag(), reinterpret_cast<const uint8_t*>(from));
}

/// Float `which` of a pair.
HWY_INLINE FloatVec float_of(WordVec pair, int which) {
  return which == 0 ? even_of(pair) : odd_of(pair);
}

/// Panels of kVectors vectors of columns for the k of a run, as pack_panels() makes them of plain
/// operands (pack-inl.h): columns beyond the last group are those of the last. Runs are whole
/// steps.
template <int kVectors, PanelForm kForm>
void pack_code_tiles(const Product& product, Range columns, const KRun& run, int64_t block_steps,
                     float* out) {
  constexpr int kPitch = kVectors * static_cast<int>(kFloatLanes);
  const int64_t last = num_groups(product.n) - 1;
  const NarrowLookup look_up;
  out += run.step * kPitch;
  for (int64_t c = columns.begin; c < columns.end; c += kPitch, out += kPitch * block_steps) {
    for (int i = 0; i < kVectors; ++i) {
      const int64_t column = c + i * kFloatLanes;
      const int v = static_cast<int>(column % kGroupRows / kFloatLanes);
      const TileRun tiles =
          tile_run(Format::fp8, product.n, product.k, std::min(column / kGroupRows, last));
      float* to = out + i * kFloatLanes;
      for (int64_t k = run.begin; k < run.end; k += kCodeColumns) {
        const std::byte* const tile = product.b.data + tiles.begin + k / kBlockColumns * tiles.step;
        const int step = static_cast<int>(k % kBlockColumns / kCodeColumns);
        const StepWords words = look_up(load_step(tile, step, v));
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) {
          if constexpr (kForm == PanelForm::words) {
            hn::StoreU(words.pair[p], WordTag(), reinterpret_cast<uint32_t*>(to));
            to += kPitch;
          } else {
            constexpr int kFirst = kForm == PanelForm::swapped ? 1 : 0;
            hn::StoreU(float_of(words.pair[p], kFirst), FloatTag(), to);
            hn::StoreU(float_of(words.pair[p], 1 - kFirst), FloatTag(), to + kPitch);
            to += 2 * kPitch;
          }
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
