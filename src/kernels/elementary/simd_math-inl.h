// SPDX-License-Identifier: Apache-2.0
// Vectors of floats as all kernels use them, once per instruction set (dispatch.h shows the layout
// of a source file): loads and stores that widen and round, the functions of math/elementary.h, the
// 16 virtual lanes in which sums over a row run, and Philox words. Every operation is correctly
// rounded and element-wise, so 8 lanes at a time (AVX2) and 16 (AVX-512) give the same bits as one;
// where lanes combine (Vec16, tree_sum16) the order is fixed and does not know the vector's width.
// Include after foreach_target.h and outside of HWY_BEFORE_NAMESPACE. Bits equal to the scalar
// versions are proved by elementary/simd_math_test.cpp.

#include <cstdint>
#include <cstring>
#include <limits>

#include "math/elementary_ops.h"
#include "tensor/dtype.h"

#if defined(MEGA_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_SIMD_MATH_INL_H_
#undef MEGA_KERNELS_SIMD_MATH_INL_H_
#else
#define MEGA_KERNELS_SIMD_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVec = hn::Vec<WordTag>;
/// Floats in one vector: 16 or 8.
inline constexpr int64_t kFloatLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));

namespace elementary {
#include "math/elementary_functions-inl.h"
}  // namespace elementary

/// The operations of math/elementary_ops.h for one vector: elementary::exp<SimdOps>(v).
struct SimdOps {
  using V = FloatVec;
  using I = WordVec;
  using M = hn::Mask<FloatTag>;
  static constexpr FloatTag kF{};
  static constexpr WordTag kI{};

  static HWY_INLINE V set(float x) { return hn::Set(kF, x); }
  static HWY_INLINE I set_bits(uint32_t x) { return hn::Set(kI, x); }
  static HWY_INLINE V add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V mul(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V div(V a, V b) { return hn::Div(a, b); }
  static HWY_INLINE V sqrt(V a) { return hn::Sqrt(a); }
  static HWY_INLINE V fma(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V fnma(V a, V b, V c) { return hn::NegMulAdd(a, b, c); }
  static HWY_INLINE V min(V a, V b) { return hn::Min(a, b); }
  static HWY_INLINE V max(V a, V b) { return hn::Max(a, b); }
  static HWY_INLINE M less(V a, V b) { return hn::Lt(a, b); }
  static HWY_INLINE M less_equal(V a, V b) { return hn::Le(a, b); }
  static HWY_INLINE V select(M m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
  static HWY_INLINE I bits(V a) { return hn::BitCast(kI, a); }
  static HWY_INLINE V from_bits(I a) { return hn::BitCast(kF, a); }
  static HWY_INLINE I add_bits(I a, I b) { return hn::Add(a, b); }
  static HWY_INLINE I sub_bits(I a, I b) { return hn::Sub(a, b); }
  static HWY_INLINE I and_bits(I a, I b) { return hn::And(a, b); }
  static HWY_INLINE I or_bits(I a, I b) { return hn::Or(a, b); }
  template <int kBits>
  static HWY_INLINE I shift_left(I a) {
    return hn::ShiftLeft<kBits>(a);
  }
  template <int kBits>
  static HWY_INLINE I shift_right_arithmetic(I a) {
    const hn::RebindToSigned<WordTag> di;
    return hn::BitCast(kI, hn::ShiftRight<kBits>(hn::BitCast(di, a)));
  }
  static HWY_INLINE V from_int(I a) {
    const hn::RebindToSigned<WordTag> di;
    return hn::ConvertTo(kF, hn::BitCast(di, a));
  }
};

// ---------------------------------------------------------------- loads and stores

/// kFloatLanes elements, widened exactly. No alignment is needed.
HWY_INLINE FloatVec load(const float* p) { return hn::LoadU(FloatTag(), p); }
HWY_INLINE FloatVec load(const bf16_t* p) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), bits)));
}

HWY_INLINE void store(FloatVec v, float* p) { hn::StoreU(v, FloatTag(), p); }
/// The bits of bf16 in the high halves (the low ones hold what is left of the float). Rounds to
/// nearest even; a NaN stays a (quiet) NaN: as to_bf16 of tensor/dtype.h.
HWY_INLINE WordVec bf16_bits(FloatVec v) {
  const WordTag dw;
  const WordVec bits = hn::BitCast(dw, v);
  const WordVec odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(dw, 1));
  const WordVec rounded = hn::Add(bits, hn::Add(odd, hn::Set(dw, 0x7fff)));
  const WordVec quiet = hn::Or(bits, hn::Set(dw, 0x400000));
  return hn::IfThenElse(hn::RebindMask(dw, hn::IsNaN(v)), quiet, rounded);
}
HWY_INLINE void store(FloatVec v, bf16_t* p) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(bf16_bits(v))), d16,
             reinterpret_cast<uint16_t*>(p));
}

HWY_INLINE FloatVec load(const f16_t* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> dh;
  return hn::PromoteTo(FloatTag(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
}
/// Rounds to nearest even, denormals too; what is beyond 65504 becomes infinity: as to_f16.
HWY_INLINE void store(FloatVec v, f16_t* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(p));
}

/// The first n < kFloatLanes elements; +0 in the other lanes. Reads nothing beyond them.
template <class T>
HWY_INLINE FloatVec load_some(const T* p, int64_t n) {
  HWY_ALIGN T buffer[kFloatLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(T));
  return load(buffer);
}
template <class T>
HWY_INLINE void store_some(FloatVec v, T* p, int64_t n) {
  HWY_ALIGN T buffer[kFloatLanes];
  store(v, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(T));
}

/// What storing as T and loading again gives.
template <class T>
HWY_INLINE FloatVec rounded_to(FloatVec v) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return v;
  } else {
    HWY_ALIGN T buffer[kFloatLanes];
    store(v, buffer);
    return load(buffer);
  }
}

// ---------------------------------------------------------------- 16 virtual lanes

/// Sixteen floats: element i of a row goes to lane i % 16, a chain in increasing i.
inline constexpr int kParts = 16 / static_cast<int>(kFloatLanes);
struct Vec16 {
  FloatVec part[kParts];
};

HWY_INLINE Vec16 set16(float x) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Set(FloatTag(), x);
  return v;
}
template <class T>
HWY_INLINE Vec16 load16(const T* p) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) v.part[i] = load(p + i * kFloatLanes);
  return v;
}
/// The first n < 16 elements, +0 after them.
template <class T>
HWY_INLINE Vec16 load16_some(const T* p, int64_t n) {
  HWY_ALIGN T buffer[16] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(T));
  return load16(buffer);
}
template <class T>
HWY_INLINE void store16(const Vec16& v, T* p) {
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) store(v.part[i], p + i * kFloatLanes);
}
template <class T>
HWY_INLINE void store16_some(const Vec16& v, T* p, int64_t n) {
  HWY_ALIGN T buffer[16];
  store16(v, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(T));
}
/// v with +0 in lanes n and later.
HWY_INLINE Vec16 first16(const Vec16& v, int64_t n) {
  HWY_ALIGN float buffer[16];
  store16(v, buffer);
  for (int64_t i = n; i < 16; ++i) buffer[i] = 0.0f;
  return load16(buffer);
}
HWY_INLINE Vec16 add16(const Vec16& a, const Vec16& b) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Add(a.part[i], b.part[i]);
  return v;
}
/// a * b + c
HWY_INLINE Vec16 fma16(const Vec16& a, const Vec16& b, const Vec16& c) {
  Vec16 v;
#pragma GCC unroll 2
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return v;
}
/// The lanes' sum: lane l with l + 8, then + 4, + 2, + 1.
HWY_INLINE float tree_sum16(const Vec16& v) {
  const hn::CappedTag<float, 4> d4;
#if HWY_CAP_GE512
  const hn::CappedTag<float, 8> d8;
  const auto by8 = hn::Add(hn::LowerHalf(d8, v.part[0]), hn::UpperHalf(d8, v.part[0]));
#else
  const auto by8 = hn::Add(v.part[0], v.part[1]);
#endif
  const auto by4 = hn::Add(hn::LowerHalf(d4, by8), hn::UpperHalf(d4, by8));
  const auto by2 = hn::Add(by4, hn::Shuffle1032(by4));
  return hn::GetLane(hn::Add(by2, hn::Shuffle2301(by2)));
}

// ---------------------------------------------------------------- Philox

/// 2 kGroups kFloatLanes words in order, the first being word 0 of counter
/// (counter_high, second << 32 | first): the words of counters first, first + 1, ... (first + n
/// must not pass 2^32). Equal to math/random.h's philox(). Two groups hide each other's latency.
template <int kGroups>
HWY_INLINE void philox_words(uint64_t key, uint32_t first, uint32_t second, uint64_t counter_high,
                             WordVec (&out)[2 * kGroups]) {
  // One counter per 64-bit lane; each of its four words lies in the low half of a vector's lane.
  // What is in the high halves is never looked at: MulEven multiplies low halves only.
  const hn::RepartitionToWide<WordTag> dq;
  using Wide = hn::Vec<hn::RepartitionToWide<WordTag>>;
  const WordTag dw;
  // Interleaving below works within 128-bit blocks; counters are dealt so that its result is in
  // order.
  HWY_ALIGN static constexpr uint64_t kOrder[2][8] = {{0, 2, 1, 3}, {0, 4, 1, 5, 2, 6, 3, 7}};
  const Wide order = hn::Load(dq, kOrder[kFloatLanes / 16]);
  Wide x0[kGroups], x1[kGroups], x2[kGroups], x3[kGroups];
#pragma GCC unroll 2
  for (int g = 0; g < kGroups; ++g) {
    x0[g] =
        hn::Add(order, hn::Set(dq, uint64_t{first} + static_cast<uint64_t>(g * kFloatLanes / 2)));
    x1[g] = hn::Set(dq, uint64_t{second});
    x2[g] = hn::Set(dq, counter_high);
    x3[g] = hn::Set(dq, counter_high >> 32);
  }
  const WordVec multiplier0 = hn::Set(dw, 0xD2511F53u), multiplier1 = hn::Set(dw, 0xCD9E8D57u);
  Wide k0 = hn::Set(dq, key), k1 = hn::Set(dq, key >> 32);
  const Wide weyl0 = hn::Set(dq, uint64_t{0x9E3779B9u}), weyl1 = hn::Set(dq, uint64_t{0xBB67AE85u});
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      const Wide p0 = hn::MulEven(hn::BitCast(dw, x0[g]), multiplier0);
      const Wide p1 = hn::MulEven(hn::BitCast(dw, x2[g]), multiplier1);
      x0[g] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), x1[g]), k0);
      x2[g] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), x3[g]), k1);
      x1[g] = p1;
      x3[g] = p0;
    }
    k0 = hn::Add(k0, weyl0);
    k1 = hn::Add(k1, weyl1);
  }
  const Wide low = hn::Set(dq, 0xffffffffull);
#pragma GCC unroll 2
  for (int g = 0; g < kGroups; ++g) {
    const Wide words01 = hn::Or(hn::And(x0[g], low), hn::ShiftLeft<32>(x1[g]));
    const Wide words23 = hn::Or(hn::And(x2[g], low), hn::ShiftLeft<32>(x3[g]));
    out[2 * g] = hn::BitCast(dw, hn::InterleaveLower(dq, words01, words23));
    out[2 * g + 1] = hn::BitCast(dw, hn::InterleaveUpper(dq, words01, words23));
  }
}
/// One group.
HWY_INLINE void philox_words(uint64_t key, uint32_t first, uint32_t second, uint64_t counter_high,
                             WordVec& a, WordVec& b) {
  WordVec words[2];
  philox_words<1>(key, first, second, counter_high, words);
  a = words[0];
  b = words[1];
}

/// True where the unsigned word is >= threshold.
HWY_INLINE hn::Mask<FloatTag> at_least(WordVec words, uint32_t threshold) {
  const hn::RebindToSigned<WordTag> di;
  const auto flip = hn::Set(WordTag(), 0x80000000u);
  const auto limit = hn::BitCast(di, hn::Set(WordTag(), threshold ^ 0x80000000u));
  return hn::RebindMask(FloatTag(), hn::Not(hn::Lt(hn::BitCast(di, hn::Xor(words, flip)), limit)));
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_SIMD_MATH_INL_H_
