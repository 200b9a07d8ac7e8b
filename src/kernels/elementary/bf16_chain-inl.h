// SPDX-License-Identifier: Apache-2.0
// The step of the bf16 chain (math/bf16_chain.h) for a vector of sums: operands are *words*, two
// neighbours in k each, the even one in the low half. `FmaPairs` runs on every instruction set, in
// functions that are called under FlushDenormals; `DotPairs` is the one instruction of AVX512-BF16.
// A kernel is a template over the two; MEGA_BEFORE_BF16_NAMESPACE() takes the place of
// HWY_BEFORE_NAMESPACE() in its file, so that DotPairs can be inlined: the compiler uses those
// instructions nowhere else. Included once per instruction set.
#include <immintrin.h>

#include "kernels/elementary/flush_denormals.h"
#include "kernels/elementary/simd_math-inl.h"

#if defined(MEGA_KERNELS_BF16_CHAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_BF16_CHAIN_INL_H_
#undef MEGA_KERNELS_BF16_CHAIN_INL_H_
#else
#define MEGA_KERNELS_BF16_CHAIN_INL_H_
#endif

#undef MEGA_BEFORE_BF16_NAMESPACE
#if HWY_CAP_GE512
#define MEGA_BEFORE_BF16_NAMESPACE() \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16") static_assert(true, "")
#else
#define MEGA_BEFORE_BF16_NAMESPACE() HWY_BEFORE_NAMESPACE()
#endif

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

HWY_INLINE FloatVec even_of(WordVec words) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(words));
}
HWY_INLINE FloatVec odd_of(WordVec words) {
  return hn::BitCast(FloatTag(), hn::And(words, hn::Set(WordTag(), 0xffff0000u)));
}

struct FmaPairs {
  static constexpr bool kFlushes = true;  // wants FlushDenormals
  static HWY_INLINE FloatVec step(WordVec a, WordVec b, FloatVec sum) {
    return hn::MulAdd(even_of(a), even_of(b), hn::MulAdd(odd_of(a), odd_of(b), sum));
  }
};

#if HWY_CAP_GE512
struct DotPairs {
  static constexpr bool kFlushes = false;
  static HWY_INLINE FloatVec step(WordVec a, WordVec b, FloatVec sum) {
    return FloatVec{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(a.raw),
                                     reinterpret_cast<__m512bh>(b.raw))};
  }
};
#endif

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
