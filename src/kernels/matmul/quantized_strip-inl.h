// SPDX-License-Identifier: Apache-2.0
// Strips of a quantised B: some blocks of kLanes of its rows (columns of the result), transposed
// and widened to the steps of PanelForm (gemm.h). Included once per instruction set.
#if defined(MEGA_QUANTIZED_STRIP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_QUANTIZED_STRIP_INL_H
#undef MEGA_QUANTIZED_STRIP_INL_H
#else
#define MEGA_QUANTIZED_STRIP_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "kernels/matmul/pack-inl.h"
#include "kernels/matmul/quantized.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {

/// Steps that a block takes.
template <PanelForm kForm>
inline constexpr int kBlockSteps = static_cast<int>(steps_of<kForm>(kCodes));

/// The rows of a strip; beyond the last of B, the last again.
struct StripRows {
  const std::byte* codes[kLanes];
  const std::byte* scales[kLanes];
  // What the next columns will read, in the order in which it lies in memory.
  const std::byte* next_codes;
  const std::byte* next_scales;

  StripRows(const Product& product, int64_t column) {
    const Operand &b = product.b, &s = product.b_scales;
    for (int r = 0; r < kLanes; ++r) {
      const int64_t n = std::min(column + r, product.n - 1);
      codes[r] = b.data + n * b.stride;
      scales[r] = s.data + n * s.stride * kScaleBytes;
    }
    next_codes = b.data + (column + kLanes) * b.stride;
    next_scales = s.data + (column + kLanes) * s.stride * kScaleBytes;
  }
};

/// A strip as the chains read it.
struct Strip {
  HWY_ALIGN float steps[kStripBlocks * kCodes * kLanes];  // [step][lane], by PanelForm
  HWY_ALIGN float scales[kStripBlocks][kLanes];
};

/// The four codes in the bytes of each word, as steps.
template <PanelForm kForm>
HWY_INLINE void widen_codes(WordVec word, float* out) {
  // A code c is c + 128 under the bits of a power of two whose unit is where the byte lies; that
  // and the 128 are subtracted, exactly. Conversions of integers would want shifts, which compete
  // with the transposition.
  const auto widen = [](WordVec bytes, uint32_t mask, uint32_t bits, float value) HWY_ATTR {
    const auto sum = hn::OrAnd(hn::Set(WordTag(), bits), bytes, hn::Set(WordTag(), mask));
    return hn::Sub(hn::BitCast(FloatTag(), sum), hn::Set(FloatTag(), value));
  };
  const WordVec low = hn::Xor(word, hn::Set(WordTag(), 0x80808080u)),
                high = hn::ShiftRight<16>(low);
  const FloatVec code[4] = {
      widen(low, 0xff, 0x4b000000, 0x1p23f + 128), widen(low, 0xff00, 0x47000000, 0x1p15f + 128),
      widen(high, 0xff, 0x4b000000, 0x1p23f + 128), widen(high, 0xff00, 0x47000000, 0x1p15f + 128)};
  if constexpr (kForm == PanelForm::words) {
    // The low half of a float that holds a code is 0.
    for (int pair = 0; pair < 2; ++pair) {
      const WordVec even = hn::ShiftRight<16>(hn::BitCast(WordTag(), code[2 * pair]));
      const WordVec odd = hn::BitCast(WordTag(), code[2 * pair + 1]);
      hn::Store(hn::BitCast(FloatTag(), hn::Or(even, odd)), FloatTag(), out + pair * kLanes);
    }
  } else {
    constexpr int kSwap = kForm == PanelForm::swapped ? 1 : 0;
    for (int i = 0; i < 4; ++i) hn::Store(code[i ^ kSwap], FloatTag(), out + i * kLanes);
  }
}

/// A vector of codes from each row (`row(r)`), of which the first `count` become steps.
template <PanelForm kForm, typename Row>
HWY_INLINE void widen_rows(const Row& row, int64_t count, float* out) {
  WordVec blocks[kLanes / 4][4];
  load_blocks(row, blocks);
#pragma GCC unroll 4
  for (int c = 0; c < kLanes / 4; ++c) {
    if (16 * c >= count) break;
    WordVec word[4];
    transpose_blocks(blocks[c], word);
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w)
      widen_codes<kForm>(word[w], out + steps_of<kForm>(16 * c + 4 * w) * kLanes);
  }
}

/// The scales of `count` blocks: as f16 they are pairs in words, which transpose as codes do.
HWY_INLINE void widen_scales(const StripRows& rows, int64_t block, int count,
                             float (*out)[kLanes]) {
  static_assert(kStripBlocks * kScaleBytes == 16);
  HWY_ALIGN uint32_t quads[4][kLanes];
  const auto gather = [&](int64_t bytes) HWY_ATTR {
    for (int r = 0; r < kLanes; ++r)
      std::memcpy(&quads[r % 4][r / 4 * 4], rows.scales[r] + block * kScaleBytes,
                  static_cast<size_t>(bytes));
  };
  if (count == kStripBlocks)
    gather(kStripBlocks * kScaleBytes);  // of a size that the compiler knows
  else
    gather(count * kScaleBytes);
  WordVec quad[4], word[4];
  for (int q = 0; q < 4; ++q) quad[q] = hn::Load(WordTag(), quads[q]);
  transpose_blocks(quad, word);
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<hwy::float16_t, FloatTag> df16;
  for (int w = 0; w < 4; ++w) {
    const auto even = hn::TruncateTo(d16, hn::And(word[w], hn::Set(WordTag(), 0xffff)));
    const auto odd = hn::TruncateTo(d16, hn::ShiftRight<16>(word[w]));
    hn::Store(hn::PromoteTo(FloatTag(), hn::BitCast(df16, even)), FloatTag(), out[2 * w]);
    hn::Store(hn::PromoteTo(FloatTag(), hn::BitCast(df16, odd)), FloatTag(), out[2 * w + 1]);
  }
}

/// Into the second-level cache: the first holds the strip.
HWY_INLINE void prefetch(const std::byte* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at, 0, 2);
}

template <PanelForm kForm>
void widen_strip(const StripRows& rows, int64_t block, int num_blocks, Strip& strip) {
  constexpr int kVector = 4 * kLanes;  // codes
  widen_scales(rows, block, num_blocks, strip.scales);
  prefetch(rows.next_scales + block * kLanes * kScaleBytes, num_blocks * kLanes * kScaleBytes);
  const int64_t begin = block * kCodes, count = num_blocks * kCodes;
  int64_t k = 0;
  for (; k + kVector <= count; k += kVector) {
    prefetch(rows.next_codes + (begin + k) * kLanes, kVector * kLanes);
    widen_rows<kForm>([&](int r) HWY_ATTR { return rows.codes[r] + begin + k; }, kVector,
                      strip.steps + steps_of<kForm>(k) * kLanes);
  }
  if (k == count) return;
  HWY_ALIGN std::byte rest[kLanes][kVector];
  for (int r = 0; r < kLanes; ++r)
    std::memcpy(rest[r], rows.codes[r] + begin + k, static_cast<size_t>(count - k));
  widen_rows<kForm>([&](int r) HWY_ATTR { return rest[r]; }, count - k,
                    strip.steps + steps_of<kForm>(k) * kLanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
