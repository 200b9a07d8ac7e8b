// SPDX-License-Identifier: Apache-2.0
// Vectors of floats from and to the types of 8 bits, with the same bits as the scalar
// conversions of tensor/dtype.h. Include after foreach_target.h (elementary/dispatch.h).

#include "kernels/elementary/simd_math-inl.h"
#include "tensor/dtype.h"

#if defined(MEGA_KERNELS_NARROW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_KERNELS_NARROW_VECTORS_INL_H_
#undef MEGA_KERNELS_NARROW_VECTORS_INL_H_
#else
#define MEGA_KERNELS_NARROW_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {

/// What the vector code needs to know of a type of 8 bits.
template <class T>
struct Float8Format;
template <>
struct Float8Format<f8_e4m3_t> {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint32_t kLargest = 0x7e, kNonfinite = 0x7f;
  static constexpr uint32_t kLargestNumber = 0x43e00000;  // as a float: 448
};
template <>
struct Float8Format<f8_e5m2_t> {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint32_t kLargest = 0x7b, kNonfinite = 0x7c;
  static constexpr uint32_t kLargestNumber = 0x47600000;  // 57344
};

/// The code that a number beyond the largest finite one becomes.
template <class T>
HWY_INLINE WordVec overflow_code(Overflow overflow) {
  using Format = Float8Format<T>;
  return hn::Set(WordTag(), overflow == Overflow::saturate ? Format::kLargest : Format::kNonfinite);
}

/// |v| rounded to as many bits as codes of T have, as words: nearest, ties to even. A normal number
/// in all its bits, of which those dropped are still there; a denormal one as a float.
template <class T>
struct RoundedMagnitude {
  using Format = Float8Format<T>;
  static constexpr int kDropped = 23 - Format::kMantissa;
  WordVec sign, carried, denormal;
  hn::MFromD<WordTag> is_denormal, is_nan;

  HWY_INLINE explicit RoundedMagnitude(FloatVec v) {
    const FloatTag df;
    const WordTag dw;
    const hn::RebindToSigned<WordTag> di;
    const WordVec bits = hn::BitCast(dw, v);
    sign = hn::And(bits, hn::Set(dw, 0x80000000u));
    const WordVec magnitude = hn::Xor(bits, sign);
    // A normal number: half a unit of the last place kept carries up, and to even.
    const WordVec odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(dw, 1));
    const WordVec half = hn::Set(dw, (1u << (kDropped - 1)) - 1);
    carried = hn::Add(magnitude, hn::Add(odd, half));
    // A denormal one: f32's own addition rounds at its unit beside a number whose last place that
    // is.
    denormal = hn::BitCast(dw, hn::Add(hn::BitCast(df, magnitude), beside()));
    const auto ordered = hn::BitCast(di, magnitude);
    is_denormal = hn::RebindMask(
        dw, hn::Lt(ordered, hn::Set(di, static_cast<int32_t>((128 - Format::kBias) << 23))));
    is_nan = hn::RebindMask(dw, hn::Gt(ordered, hn::Set(di, 0x7f800000)));
  }
  static HWY_INLINE FloatVec beside() {
    return hn::BitCast(FloatTag(), hn::Set(WordTag(), kBeside));
  }
  static constexpr uint32_t kBeside = uint32_t{127 + 24 - Format::kBias - Format::kMantissa} << 23;
};

/// The codes of v, one in each lane: nearest, ties to even; `top` is overflow_code().
template <class T>
HWY_INLINE WordVec float8_codes(FloatVec v, WordVec top) {
  using Format = Float8Format<T>;
  using Rounded = RoundedMagnitude<T>;
  const WordTag dw;
  const Rounded rounded(v);
  const WordVec normal = hn::Sub(hn::ShiftRight<Rounded::kDropped>(rounded.carried),
                                 hn::Set(dw, uint32_t{127 - Format::kBias} << Format::kMantissa));
  const WordVec denormal = hn::Sub(rounded.denormal, hn::Set(dw, Rounded::kBeside));
  const WordVec code = hn::Min(hn::IfThenElse(rounded.is_denormal, denormal, normal), top);
  return hn::Or(hn::IfThenElse(rounded.is_nan, hn::Set(dw, 0x7f), code),
                hn::ShiftRight<24>(rounded.sign));
}

/// The numbers that the codes of v stand for, saturated: load() of float8_codes(), without codes.
template <class T>
HWY_INLINE FloatVec float8_numbers(FloatVec v) {
  using Rounded = RoundedMagnitude<T>;
  const FloatTag df;
  const WordTag dw;
  const Rounded rounded(v);
  const WordVec normal =
      hn::And(rounded.carried, hn::Set(dw, ~((uint32_t{1} << Rounded::kDropped) - 1)));
  const WordVec denormal =
      hn::BitCast(dw, hn::Sub(hn::BitCast(df, rounded.denormal), Rounded::beside()));
  const WordVec number = hn::Min(hn::IfThenElse(rounded.is_denormal, denormal, normal),
                                 hn::Set(dw, Float8Format<T>::kLargestNumber));
  const WordVec with_sign = hn::Or(number, rounded.sign);
  // NaN of e4m3 has one code and no sign.
  const WordVec nan = std::is_same_v<T, f8_e4m3_t> ? hn::Set(dw, 0x7fc00000u)
                                                   : hn::Or(hn::Set(dw, 0x7fe00000u), rounded.sign);
  return hn::BitCast(df, hn::IfThenElse(rounded.is_nan, nan, with_sign));
}

template <class T>
HWY_INLINE void store_codes(WordVec codes, T* p) {
  const hn::Rebind<uint8_t, FloatTag> d8;
  hn::StoreU(hn::TruncateTo(d8, codes), d8, reinterpret_cast<uint8_t*>(p));
}

/// Codes of 8 bits as f16 that has them in its upper bits: sign, then `kShift` lower the rest.
template <int kShift>
HWY_INLINE FloatVec load_through_f16(const uint8_t* p) {
  const hn::Rebind<uint8_t, FloatTag> d8;
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<hwy::float16_t, FloatTag> dh;
  const auto codes = hn::PromoteTo(d16, hn::LoadU(d8, p));
  const auto sign = hn::And(hn::ShiftLeft<8>(codes), hn::Set(d16, 0x8000));
  const auto rest = hn::ShiftLeft<kShift>(hn::And(codes, hn::Set(d16, 0x7f)));
  return hn::PromoteTo(FloatTag(), hn::BitCast(dh, hn::Or(sign, rest)));
}
HWY_INLINE FloatVec load(const f8_e4m3_t* p) {
  // The exponent has one bit less than f16's: read as one, all is 2^8 too small.
  const FloatTag df;
  const FloatVec v =
      hn::Mul(load_through_f16<7>(reinterpret_cast<const uint8_t*>(p)), hn::Set(df, 256.0f));
  const auto is_nan = hn::Eq(hn::Abs(v), hn::Set(df, 480.0f));
  return hn::IfThenElse(is_nan, hn::Set(df, std::numeric_limits<float>::quiet_NaN()), v);
}
HWY_INLINE FloatVec load(const f8_e5m2_t* p) {
  return load_through_f16<8>(reinterpret_cast<const uint8_t*>(p));
}

/// The larger of each lane of amax and |v|, which is passed over where it is NaN.
HWY_INLINE FloatVec larger_magnitude(FloatVec amax, FloatVec v) {
  const FloatVec magnitude = hn::Abs(v);
  return hn::IfThenElse(hn::Gt(magnitude, amax), magnitude, amax);
}

/// The first n < kFloatLanes elements; +0 in the other lanes.
template <class T>
HWY_INLINE FloatVec load_first(const T* p, int64_t n) {
  HWY_ALIGN T buffer[kFloatLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(T));
  return load(buffer);
}
template <class T>
HWY_INLINE void store_first_codes(WordVec codes, T* p, int64_t n) {
  HWY_ALIGN T buffer[kFloatLanes];
  store_codes(codes, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(T));
}

}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MEGA_KERNELS_NARROW_VECTORS_INL_H_
