// SPDX-License-Identifier: Apache-2.0
// Rows of x rounded to codes of 8 bits, for the products of dot8.h. Included once per instruction
// set.
#if defined(MEGA_DOT8_CODES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_DOT8_CODES_INL_H
#undef MEGA_DOT8_CODES_INL_H
#else
#define MEGA_DOT8_CODES_INL_H
#endif

#include <bit>
#include <cstring>

#include "kernels/elementary/simd_math-inl.h"
#include "kernels/matmul/dot8.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace kernels::HWY_NAMESPACE;  // NOLINT: vectors of floats, once per instruction set

using IntTag = hn::RebindToSigned<WordTag>;
using IntVec = hn::Vec<IntTag>;

template <typename T>
HWY_INLINE T load_one(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// 32 numbers to codes and their scale; returns the sum of the codes.
template <typename T>
int32_t code_block(const T* x, std::byte* codes, float& scale) {
  constexpr int kVectors = static_cast<int>(kBlockColumns / kFloatLanes);
  FloatVec value[kVectors];
  // Of numbers without sign the bits are in order, with infinity and NaN behind them.
  WordVec most = hn::Zero(WordTag());
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    value[v] = load(x + v * kFloatLanes);
    most = hn::Max(most, hn::BitCast(WordTag(), hn::Abs(value[v])));
  }
  const float magnitude = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(WordTag(), most)));
  const bool is_zero = magnitude < kLeastMagnitude;
  scale = is_zero ? 0.0F : magnitude / 127.0F;
  const FloatVec inverse = hn::Set(FloatTag(), is_zero ? 0.0F : 127.0F / magnitude);
  IntVec sum = hn::Zero(IntTag());
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const IntVec code = hn::NearestInt(hn::Mul(value[v], inverse));
    const hn::Rebind<int8_t, FloatTag> d8;
    const auto bytes = hn::DemoteTo(d8, code);
    hn::StoreU(bytes, d8, reinterpret_cast<int8_t*>(codes + v * kFloatLanes));
    sum = hn::Add(sum, hn::PromoteTo(IntTag(), bytes));
  }
  return hn::GetLane(hn::SumOfLanes(IntTag(), sum));
}

/// Blocks of the rows of A from `first` on into set `set`; rows that are not there are zeros.
template <typename T>
void code_set(const Product& product, const CodedRows& to, int64_t first, int64_t set,
              Range blocks) {
  const T* const from = reinterpret_cast<const T*>(product.a.data);
  const int zero = to.format == Format::q8_0 ? 128 : 8;
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    std::byte* const out = to.at(set, b);
    std::byte* const scales = out + to.rows * kBlockColumns;
    for (int64_t r = 0; r < to.rows; ++r) {
      float scale = 0, offset = 0;
      const int64_t row = first + set * to.rows + r;
      if (row < product.m) {
        const int32_t sum = code_block(from + row * product.a.stride + b * kBlockColumns,
                                       out + r * kBlockColumns, scale);
        offset = to.format == Format::q4_1 ? scale * static_cast<float>(sum)
                                           : std::bit_cast<float>(-zero * sum);
      } else {
        std::memset(out + r * kBlockColumns, 0, kBlockColumns);
      }
      std::memcpy(scales + 4 * r, &scale, 4);
      std::memcpy(scales + 4 * (to.rows + r), &offset, 4);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
