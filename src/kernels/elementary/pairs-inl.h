// SPDX-License-Identifier: Apache-2.0
// Rows of pairs (a_0, b_0, a_1, b_1, ...): kFloatLanes pairs to a vector of the first and one of
// the second members, and back. Include after foreach_target.h (elementary/dispatch.h).

#include "kernels/elementary/simd_math-inl.h"

#if defined(MEGA_KERNELS_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_PAIRS_INL_H_
#undef MEGA_KERNELS_PAIRS_INL_H_
#else
#define MEGA_KERNELS_PAIRS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

struct VecPair {
  FloatVec first, second;
};

/// The kFloatLanes pairs at p, widened exactly. No alignment is needed.
HWY_INLINE VecPair load_pairs(const float* p) {
  VecPair v;
  hn::LoadInterleaved2(FloatTag(), p, v.first, v.second);
  return v;
}
/// A pair of bf16 is a word: its first member is the low half.
HWY_INLINE VecPair load_pairs(const bf16_t* p) {
  const WordVec words = hn::BitCast(WordTag(), hn::LoadU(hn::Repartition<uint16_t, WordTag>(),
                                                         reinterpret_cast<const uint16_t*>(p)));
  const WordVec high = hn::And(words, hn::Set(WordTag(), 0xffff0000u));
  return {hn::BitCast(FloatTag(), hn::ShiftLeft<16>(words)), hn::BitCast(FloatTag(), high)};
}

HWY_INLINE VecPair load_pairs(const f16_t* p) {
  HWY_ALIGN float widened[2 * kFloatLanes];
  store(load(p), widened);
  store(load(p + kFloatLanes), widened + kFloatLanes);
  return load_pairs(widened);
}

HWY_INLINE void store_pairs(const VecPair& v, float* p) {
  hn::StoreInterleaved2(v.first, v.second, FloatTag(), p);
}
/// Rounds as store() does.
HWY_INLINE void store_pairs(const VecPair& v, bf16_t* p) {
  const WordVec first = hn::ShiftRight<16>(bf16_bits(v.first));
  const WordVec second = hn::And(bf16_bits(v.second), hn::Set(WordTag(), 0xffff0000u));
  const hn::Repartition<uint16_t, WordTag> d16;
  hn::StoreU(hn::BitCast(d16, hn::Or(first, second)), d16, reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store_pairs(const VecPair& v, f16_t* p) {
  HWY_ALIGN float wide[2 * kFloatLanes];
  store_pairs(v, wide);
  store(load(wide), p);
  store(load(wide + kFloatLanes), p + kFloatLanes);
}

/// The first n < kFloatLanes pairs; +0 in the other lanes. Reads nothing beyond them.
template <class T>
HWY_INLINE VecPair load_pairs_some(const T* p, int64_t n) {
  HWY_ALIGN T buffer[2 * kFloatLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(2 * n) * sizeof(T));
  return load_pairs(buffer);
}
template <class T>
HWY_INLINE void store_pairs_some(const VecPair& v, T* p, int64_t n) {
  HWY_ALIGN T buffer[2 * kFloatLanes];
  store_pairs(v, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(2 * n) * sizeof(T));
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_PAIRS_INL_H_
