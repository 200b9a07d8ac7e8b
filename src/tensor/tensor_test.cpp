// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shard.h"
#include "tensor/view.h"
#include "tensor/weight.h"

namespace megalith {
namespace {

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie, even below
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie, even above
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // overflows to infinity
  EXPECT_TRUE(std::isnan(to_f32(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

// Every code of a format widens to a value that narrows back to the same code.
TEST(DType, EveryFiniteCodeSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto code = static_cast<uint16_t>(bits);
    if (std::isfinite(to_f32(f16_t{code}))) {
      EXPECT_EQ(to_f16(to_f32(f16_t{code})).bits, code);
    }
    if (std::isfinite(to_f32(bf16_t{code}))) {
      EXPECT_EQ(to_bf16(to_f32(bf16_t{code})).bits, code);
    }
  }
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto code = static_cast<uint8_t>(bits);
    if (std::isfinite(to_f32(f8_e4m3_t{code}))) {
      EXPECT_EQ(to_f8_e4m3(to_f32(f8_e4m3_t{code})).bits, code);
    }
    if (std::isfinite(to_f32(f8_e5m2_t{code}))) {
      EXPECT_EQ(to_f8_e5m2(to_f32(f8_e5m2_t{code})).bits, code);
    }
  }
}

// Between two neighbouring codes the midpoint goes to the even one and its float neighbours to
// theirs.
TEST(DType, NarrowingTiesGoToEven) {
  for (uint32_t bits = 0; bits < 0x7bff; bits += 7) {
    const float low = to_f32(f16_t{static_cast<uint16_t>(bits)});
    const float high = to_f32(f16_t{static_cast<uint16_t>(bits + 1)});
    const float middle = 0.5f * (low + high);
    EXPECT_EQ(to_f16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(to_f16(std::nextafter(middle, 0.0f)).bits, bits);
    EXPECT_EQ(to_f16(std::nextafter(middle, 1e9f)).bits, bits + 1);
  }
  for (uint32_t bits = 0; bits < 0x7e; ++bits) {
    const float low = to_f32(f8_e4m3_t{static_cast<uint8_t>(bits)});
    const float high = to_f32(f8_e4m3_t{static_cast<uint8_t>(bits + 1)});
    EXPECT_EQ(to_f8_e4m3(0.5f * (low + high)).bits, bits % 2 == 0 ? bits : bits + 1);
  }
}

TEST(DType, NumbersBeyondTheRangeOf8BitsSaturateOrAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto e4m3 = [](float x, Overflow overflow) { return to_f8_e4m3(x, overflow).bits; };
  const auto e5m2 = [](float x, Overflow overflow) { return to_f8_e5m2(x, overflow).bits; };
  // 464 is the middle between 448 and what would be the next number, 480.
  EXPECT_EQ(e4m3(464, Overflow::nonfinite), 0x7e);
  EXPECT_EQ(e4m3(std::nextafter(464.0f, 500.0f), Overflow::nonfinite), 0x7f);
  EXPECT_EQ(e4m3(-kInfinity, Overflow::nonfinite), 0xff);
  // 61440 is the middle between 57344 and 65536, and 57344's code is odd.
  EXPECT_EQ(e5m2(std::nextafter(61440.0f, 0.0f), Overflow::nonfinite), 0x7b);
  EXPECT_EQ(e5m2(61440, Overflow::nonfinite), 0x7c);
  EXPECT_EQ(e5m2(-kInfinity, Overflow::nonfinite), 0xfc);
  for (const float x : {500.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(e4m3(x, Overflow::saturate), 0x7e);
    EXPECT_EQ(e4m3(-x, Overflow::saturate), 0xfe);
  }
  for (const float x : {61440.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(e5m2(x, Overflow::saturate), 0x7b);
    EXPECT_EQ(e5m2(-x, Overflow::saturate), 0xfb);
  }
  for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
    EXPECT_EQ(e4m3(std::nanf(""), overflow), 0x7f);
    EXPECT_EQ(e5m2(-std::nanf(""), overflow), 0xff);
  }
  EXPECT_EQ(to_f32(to_f8_e4m3(1e30f)), largest_finite(DType::f8_e4m3));
  EXPECT_EQ(to_f32(to_f8_e5m2(1e30f)), largest_finite(DType::f8_e5m2));
  EXPECT_EQ(to_f32(f16_t{0x7bff}), largest_finite(DType::f16));
  EXPECT_EQ(to_f32(bf16_t{0x7f7f}), largest_finite(DType::bf16));
}

TEST(DType, AnExponentIsTheNearestPowerOrTheNextOneUp) {
  for (uint32_t bits = 0; bits < 0xff; ++bits) {
    const auto code = static_cast<uint8_t>(bits);
    const float power = to_f32(f8_e8m0_t{code});
    EXPECT_EQ(power, std::ldexp(1.0f, static_cast<int>(bits) - 127));
    EXPECT_EQ(to_f8_e8m0(power).bits, code);
    EXPECT_EQ(to_f8_e8m0(-power).bits, code);  // no sign
    EXPECT_EQ(to_f8_e8m0_up(power).bits, code);
    EXPECT_EQ(to_f8_e8m0_up(std::nextafter(power, 1e38f)).bits, std::min(bits + 1, 0xfeu));
    if (bits == 0 || bits == 0xfe) continue;
    EXPECT_EQ(to_f8_e8m0(1.5f * power).bits, bits + 1);  // halfway goes up
    EXPECT_EQ(to_f8_e8m0(std::nextafter(1.5f * power, 0.0f)).bits, code);
  }
  EXPECT_EQ(to_f8_e8m0(std::numeric_limits<float>::max()).bits, 0xff);
  EXPECT_EQ(to_f8_e8m0(0).bits, 0);
  EXPECT_EQ(to_f8_e8m0_up(0).bits, 0);
  EXPECT_EQ(to_f8_e8m0_up(std::numeric_limits<float>::infinity()).bits, 0xfe);
  EXPECT_EQ(to_f8_e8m0_up(std::nanf("")).bits, 0xff);
  EXPECT_TRUE(std::isnan(to_f32(f8_e8m0_t{0xff})));
}

TEST(DType, NamesGoBothWays) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2,
        DType::f8_e8m0, DType::i64, DType::i32, DType::u16, DType::u8, DType::i8}) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_from_name("float"));
}

TEST(Shape, ProductIsChecked) {
  EXPECT_EQ((Shape{3, 5, 7}).num_elements(), 105);
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ((Shape{3, 0}).num_elements(), 0);
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}).num_elements(), InternalError);
}

TEST(View, RowsAndColumnsKeepTheRowStride) {
  std::vector<float> data(6 * 8);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const View whole(reinterpret_cast<std::byte*>(data.data()), DType::f32, Shape{6, 8});
  const View part = whole.rows(2, 3).columns(4, 2);
  EXPECT_EQ(part.shape(), (Shape{3, 2}));
  EXPECT_EQ(part.row<float>(1)[1], 3 * 8 + 5);
  EXPECT_FALSE(part.is_contiguous());
  EXPECT_THROW(part.rows(2, 2), InternalError);
  EXPECT_THROW(part.as<double>(), InternalError);
  EXPECT_THROW(part.reshape(Shape{6}), InternalError);
}

TEST(Weight, APlainOneIsAViewAndKnowsItsFormat) {
  std::vector<float> data(6);
  const View view(reinterpret_cast<std::byte*>(data.data()), DType::f32, Shape{2, 3});
  const Weight weight = view;
  EXPECT_EQ(weight.format, Format::f32);
  EXPECT_EQ(ConstView(weight).data(), view.data());
  for (const Format format : {Format::f64, Format::f32, Format::bf16, Format::f16}) {
    EXPECT_EQ(plain_format(dtype_of(format)), format);
    EXPECT_EQ(name_of(format), name_of(dtype_of(format)));
  }
  EXPECT_THROW(plain_format(DType::i32), InternalError);
}

TEST(Weight, OneInBlocksIsNoViewForReadersOfPlainFormats) {
  const std::vector<std::byte> data(2 * 544);
  for (const Format format : {Format::q8_0, Format::q4_0, Format::q4_1}) {
    const Shape shape{17, 32};
    const ConstView tiles(data.data(), DType::u8, stored_shape(format, shape));
    const Weight weight(tiles, format, shape);
    EXPECT_FALSE(is_plain(weight.format));
    EXPECT_EQ(dtype_of(weight.format), tiles.dtype());
    EXPECT_EQ(format_from_name(name_of(format)), format);
    EXPECT_THROW(static_cast<void>(ConstView(weight)), InternalError);
    EXPECT_THROW(static_cast<void>(Weight(tiles)), InternalError);  // bytes alone are no weight
    EXPECT_THROW(stored_shape(format, Shape{2, 33}), InternalError);
    EXPECT_THROW(stored_shape(format, Shape{32}), InternalError);
  }
  EXPECT_EQ(stored_shape(Format::q8_0, Shape{17, 64}), (Shape{2, 2 * 16 * 34}));
  EXPECT_EQ(stored_shape(Format::q4_0, Shape{16, 64}), (Shape{1, 2 * 16 * 18}));
  EXPECT_EQ(stored_shape(Format::q4_1, Shape{1, 32}), (Shape{1, 16 * 20}));
  EXPECT_EQ(stored_shape(Format::bf16, Shape{5}), Shape{5});
  EXPECT_FALSE(format_from_name("q5_0"));
}

TEST(Shard, PartsCoverTheDimension) {
  const Shape global{12, 5};
  const Shard second = Shard::part(global, 0, 1, 4);
  EXPECT_EQ(second.begin, 3);
  EXPECT_EQ(second.local_shape(global), (Shape{3, 5}));
  EXPECT_THROW(Shard::part(global, 1, 0, 2), InternalError);
  EXPECT_TRUE(Shard::whole(global).is_whole(global));
}

}  // namespace
}  // namespace megalith
