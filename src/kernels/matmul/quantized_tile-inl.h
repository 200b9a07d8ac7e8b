// SPDX-License-Identifier: Apache-2.0
// Tiles of weights in blocks (tensor/blocks.h) widened in registers: rows lie side by side in a
// vector, and a word of each holds the codes of neighbouring columns. The values are those of
// tensor/blocks.h to the bit. Included once per instruction set.
#if defined(MEGA_QUANTIZED_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_QUANTIZED_TILE_INL_H
#undef MEGA_QUANTIZED_TILE_INL_H
#else
#define MEGA_QUANTIZED_TILE_INL_H
#endif

#include <algorithm>

#include "kernels/matmul/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

/// Columns that a word holds.
template <Format kFormat>
inline constexpr int kStepColumns = kFormat == Format::q8_0 ? 4 : 8;
template <Format kFormat>
inline constexpr int kTileSteps = static_cast<int>(kBlockColumns / kStepColumns<kFormat>);
/// The code that stands for 0 times the scale.
template <Format kFormat>
inline constexpr float kZeroCode = kFormat == Format::q8_0   ? 128.0F
                                   : kFormat == Format::q4_0 ? 8.0F
                                                             : 0.0F;

struct TileScales {
  FloatVec scale;
  FloatVec least;  // q4_1
};

HWY_INLINE FloatVec load_halves(const std::byte* from) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<hwy::float16_t, FloatTag> df16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::PromoteTo(FloatTag(), hn::BitCast(df16, bits));
}

/// Of vector `v` of a tile.
template <Format kFormat>
HWY_INLINE TileScales load_scales(const std::byte* tile, int v) {
  const std::byte* const from = tile + v * kFloatLanes * 2;
  TileScales scales{load_halves(from), hn::Zero(FloatTag())};
  if constexpr (has_least(kFormat)) scales.least = load_halves(from + kGroupRows * 2);
  return scales;
}

/// Words of step `step` of vector `v`.
template <Format kFormat>
HWY_INLINE WordVec load_codes(const std::byte* tile, int step, int v) {
  const std::byte* const from =
      tile + tile_codes_at(kFormat) + (step * kGroupRows + v * kFloatLanes) * 4;
  return hn::LoadU(WordTag(), reinterpret_cast<const uint32_t*>(from));
}

template <Format kFormat>
HWY_INLINE FloatVec value_of(FloatVec code, const TileScales& scales) {
  if constexpr (has_least(kFormat)) return hn::MulAdd(scales.scale, code, scales.least);
  return hn::Mul(scales.scale, code);
}

/// The code whose lowest bit is bit kAt of each word. Under the bits of a power of two whose unit
/// is there it is a number; that and the code of 0 are subtracted, exactly. Conversions of integers
/// would want a shift for each code.
template <Format kFormat, int kAt>
HWY_INLINE FloatVec code_at(WordVec words) {
  constexpr int kBits = kFormat == Format::q8_0 ? 8 : 4;
  static_assert(kAt + kBits <= 23);
  constexpr uint32_t kMask = ((1U << kBits) - 1U) << kAt, kPower = (127U + 23U - kAt) << 23;
  constexpr float kLess = static_cast<float>(1U << (23 - kAt)) + kZeroCode<kFormat>;
  const auto sum = hn::OrAnd(hn::Set(WordTag(), kPower), words, hn::Set(WordTag(), kMask));
  return hn::Sub(hn::BitCast(FloatTag(), sum), hn::Set(FloatTag(), kLess));
}

/// The columns of a word, in order.
template <Format kFormat>
HWY_INLINE void widen_words(WordVec words, const TileScales& scales,
                            FloatVec (&out)[kStepColumns<kFormat>]) {
  if constexpr (kFormat == Format::q8_0) {
    const WordVec above = hn::ShiftRight<16>(words);
    out[0] = value_of<kFormat>(code_at<kFormat, 0>(words), scales);
    out[1] = value_of<kFormat>(code_at<kFormat, 8>(words), scales);
    out[2] = value_of<kFormat>(code_at<kFormat, 0>(above), scales);
    out[3] = value_of<kFormat>(code_at<kFormat, 8>(above), scales);
  } else {
    const WordVec above = hn::ShiftRight<12>(words);
    out[0] = value_of<kFormat>(code_at<kFormat, 0>(words), scales);
    out[1] = value_of<kFormat>(code_at<kFormat, 8>(words), scales);
    out[2] = value_of<kFormat>(code_at<kFormat, 16>(words), scales);
    out[3] = value_of<kFormat>(code_at<kFormat, 12>(above), scales);
    out[4] = value_of<kFormat>(code_at<kFormat, 4>(words), scales);
    out[5] = value_of<kFormat>(code_at<kFormat, 12>(words), scales);
    out[6] = value_of<kFormat>(code_at<kFormat, 8>(above), scales);
    out[7] = value_of<kFormat>(code_at<kFormat, 16>(above), scales);
  }
}

/// One column of a tile: where a shard ends inside a block.
template <Format kFormat>
HWY_INLINE FloatVec widen_column(const std::byte* tile, const TileScales& scales, int v,
                                 int column) {
  constexpr int kColumns = kStepColumns<kFormat>;
  constexpr uint32_t kMask = kFormat == Format::q8_0 ? 0xff : 0xf;
  const int shift = 8 * (column % 4) + (kColumns == 8 ? 4 * (column / 4 % 2) : 0);
  const WordVec words = load_codes<kFormat>(tile, column / kColumns, v);
  const WordVec code = hn::And(hn::ShiftRightSame(words, shift), hn::Set(WordTag(), kMask));
  const hn::RebindToSigned<WordTag> signed_tag;
  const FloatVec number = hn::ConvertTo(FloatTag(), hn::BitCast(signed_tag, code));
  return value_of<kFormat>(hn::Sub(number, hn::Set(FloatTag(), kZeroCode<kFormat>)), scales);
}

/// Panels of kVectors vectors of columns for the k of a run, as pack_panels() makes them of plain
/// operands (pack-inl.h): columns beyond the last group are those of the last.
template <Format kFormat, int kVectors>
void pack_tiles(const Product& product, Range columns, const KRun& run, int64_t block_steps,
                float* out) {
  constexpr int kPitch = kVectors * static_cast<int>(kFloatLanes);
  const int64_t last = num_groups(product.n) - 1;
  out += run.step * kPitch;
  for (int64_t c = columns.begin; c < columns.end; c += kPitch, out += kPitch * block_steps) {
    for (int i = 0; i < kVectors; ++i) {
      const int64_t column = c + i * kFloatLanes;
      const int v = static_cast<int>(column % kGroupRows / kFloatLanes);
      const TileRun tiles =
          tile_run(kFormat, product.n, product.k, std::min(column / kGroupRows, last));
      float* to = out + i * kFloatLanes;
      for (int64_t k = run.begin; k < run.end;) {
        const std::byte* const tile = product.b.data + tiles.begin + k / kBlockColumns * tiles.step;
        const TileScales scales = load_scales<kFormat>(tile, v);
        if (k % kBlockColumns != 0 || k + kBlockColumns > run.end) {
          const int in_block = static_cast<int>(k % kBlockColumns);
          hn::Store(widen_column<kFormat>(tile, scales, v, in_block), FloatTag(), to);
          to += kPitch;
          ++k;
          continue;
        }
        for (int step = 0; step < kTileSteps<kFormat>; ++step) {
          FloatVec value[kStepColumns<kFormat>];
          widen_words<kFormat>(load_codes<kFormat>(tile, step, v), scales, value);
#pragma GCC unroll 8
          for (int j = 0; j < kStepColumns<kFormat>; ++j, to += kPitch)
            hn::Store(value[j], FloatTag(), to);
        }
        k += kBlockColumns;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
