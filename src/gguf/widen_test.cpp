// SPDX-License-Identifier: Apache-2.0
// Every format's values against those of the Python package gguf 0.19.0, bit for bit, and back.
#include "gguf/widen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace megalith::gguf {
namespace {

/// Blocks of bytes that take every value, but for the high bits of exponents: so the values are
/// finite.
struct Format {
  TensorType type;
  std::array<float, 3> values;  // the first, the 18th, the last
  std::string_view sha256;      // of all
};

// gguf.quants.dequantize(numpy.frombuffer(bytes, numpy.uint8), type)
constexpr Format kFormats[] = {
    {TensorType::q4_0,
     {-0x1.84ep-1F, 0x1.034p+1F, 0x1.aeep-4F},
     "e0d5f0569aa76e2e96d6ba569abf5750bb7806caa1059a651d56157a71a9ec8f"},
    {TensorType::q4_1,
     {-0x1.23a6d2p+1F, -0x1.440da4p+0F, -0x1.215cp-10F},
     "db57c27863a0042c11f2e63f6181ecdfebaaa52cd14fffb6417b973400b79120"},
    {TensorType::q5_0,
     {-0x1.c5bp+0F, 0x1.441p+0F, 0x1.f11p-9F},
     "a51d10547b5e61285992f42af0ed60b825b30c662e2d1296ceba7f17bc707b1e"},
    {TensorType::q5_1,
     {-0x1.23a76ap+2F, -0x1.033f6ap+2F, -0x1.7e8p-7F},
     "eb9f8606d925d9e088ef2aac28de286ec499386768b3e6ede00d9c37e6a080b0"},
    {TensorType::q8_0,
     {-0x1.709fp+4F, 0x1.5444p+4F, 0x1.f9cp-5F},
     "d2211c78708ec44f1eff38b5b7d397574e474ed121bed45e8c4748c0e7f31ed3"},
    {TensorType::q2_k,
     {0x1.23e4p-1F, -0x1.fd7p+0F, 0x1.30bp-2F},
     "6f0710cf80fce2c5aa6202889d969331594cd7b1870101f4a3be780752d8d074"},
    {TensorType::q3_k,
     {-0x1.3cfp-4F, 0x1.a1c8p-4F, 0x1.f348p+4F},
     "6e4d2fac169ba0ac906f69ba6b67fe50c35bd27533632c5c71ba8a20d2189eb7"},
    {TensorType::q4_k,
     {-0x1.22a6p+6F, -0x1.4c2b4p+6F, 0x1.f9f63p+3F},
     "770710e1ce863685c2e113346e71860e2bf3aa4843d2a4084f639cb39573c18b"},
    {TensorType::q5_k,
     {-0x1.1843cp+8F, -0x1.75b08p+6F, -0x1.77b38p+2F},
     "8454b6e279a956978fdf3d7059097d6f14555ed511c952757da465d8ed5495a4"},
    {TensorType::q6_k,
     {-0x1.a2d44p+7F, 0x1.0f44p+2F, 0x1.42ebdp+2F},
     "2dc343c90d30c537bf6ea9c72ae7bdd2089253653bbace9ea8259a14611c7ded"},
    {TensorType::f16,
     {-0x1.034p-2F, 0x1.ebcp-3F, -0x1.124p-3F},
     "da56b45a4f66564aea85a2d9c9c0359f104d44f5b139b3a4dc8f9dbded1a6c20"},
    {TensorType::bf16,
     {-0x1.1ap-23F, 0x1.5ep-24F, -0x1.92p-31F},
     "0bba1b60ec4052379d7df04bf229a3a21d449f531c904140bc6117435a589861"},
    {TensorType::f32,
     {0x1.b7681ap-123F, -0x1.b22adcp-126F, 0x1.a6590ap-10F},
     "9dac1cc4c9183deccf7b99930950057d286eb2502a8742eec0f05aa8f2a65079"},
};

/// Where the 16-bit numbers of a block begin.
std::vector<int64_t> halves(TensorType type) {
  switch (type) {
    case TensorType::q4_1:
    case TensorType::q5_1:
    case TensorType::q4_k:
    case TensorType::q5_k:
      return {0, 2};
    case TensorType::q2_k:
      return {80, 82};
    case TensorType::q3_k:
      return {108};
    case TensorType::q6_k:
      return {208};
    case TensorType::f32:
      return {2};
    default:
      return {0};
  }
}

int64_t blocks_of(TensorType type) {
  const int64_t elements = block_layout(type).elements;
  return elements == 1 ? 512 : elements == 256 ? 4 : 512 / elements;
}

std::vector<std::byte> stored(TensorType type) {
  const int64_t each = block_layout(type).bytes, count = blocks_of(type);
  std::vector<std::byte> bytes(static_cast<size_t>(count * each));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 167 + i / 7 * 29 + 13);
  for (int64_t block = 0; block < count; ++block) {
    for (const int64_t half : halves(type))
      bytes[static_cast<size_t>(block * each + half + 1)] &= std::byte{0xbf};
  }
  return bytes;
}

std::vector<float> widened(TensorType type, const std::vector<std::byte>& bytes) {
  const BlockLayout& layout = block_layout(type);
  std::vector<float> values(bytes.size() / static_cast<size_t>(layout.bytes) *
                            static_cast<size_t>(layout.elements));
  widen(type, bytes, values);
  return values;
}

class Widen : public ::testing::TestWithParam<Format> {};

TEST_P(Widen, ValuesAreThePackages) {
  const Format& format = GetParam();
  const std::vector<float> values = widened(format.type, stored(format.type));
  EXPECT_EQ(values.front(), format.values[0]);
  EXPECT_EQ(values[17], format.values[1]);
  EXPECT_EQ(values.back(), format.values[2]);
  EXPECT_EQ(sha256(std::as_bytes(std::span(values))), format.sha256);
}

TEST_P(Widen, BlocksStandAlone) {
  const TensorType type = GetParam().type;
  const BlockLayout& layout = block_layout(type);
  const std::vector<std::byte> bytes = stored(type);
  const std::vector<float> whole = widened(type, bytes);
  for (int64_t block = 0; block < blocks_of(type); ++block) {
    const auto from = bytes.begin() + block * layout.bytes;
    const std::vector<float> alone = widened(type, {from, from + layout.bytes});
    EXPECT_EQ(std::memcmp(alone.data(), whole.data() + block * layout.elements,
                          alone.size() * sizeof(float)),
              0);
  }
}

TEST_P(Widen, SizesThatDoNotFitAreFound) {
  std::vector<float> values(256);
  std::vector<std::byte> bytes(static_cast<size_t>(block_layout(GetParam().type).bytes) * 256 - 1);
  EXPECT_THROW(widen(GetParam().type, bytes, values), InternalError);
}

INSTANTIATE_TEST_SUITE_P(Formats, Widen, ::testing::ValuesIn(kFormats), [](const auto& format) {
  return std::string(block_layout(format.param.type).name);
});

TEST(WidenOthers, OtherFormatsAreNot) {
  for (uint32_t number = 0; number < 64; ++number) {
    const BlockLayout* layout = find_block_layout(static_cast<TensorType>(number));
    if (layout == nullptr) continue;
    const bool has_values = std::ranges::any_of(
        kFormats, [&](const Format& format) { return format.type == layout->type; });
    EXPECT_EQ(can_widen(layout->type), has_values) << layout->name;
  }
}

TEST(Narrow, WhatIsWrittenWidensBack) {
  std::vector<float> values(64 * 40);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 37 % 255) - 127) * 0x1p-9F;

  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
    const BlockLayout& layout = block_layout(type);
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(layout.bytes));
    ASSERT_TRUE(narrow(type, values, bytes));
    EXPECT_EQ(widened(type, bytes), values) << layout.name;
  }
}

TEST(Narrow, Q80IsWithinHalfAStep) {
  std::vector<float> values(32 * 131);  // not a multiple of what is done at once
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
  std::vector<std::byte> bytes(131 * 34);
  ASSERT_TRUE(narrow(TensorType::q8_0, values, bytes));
  const std::vector<float> back = widened(TensorType::q8_0, bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    float largest = 0;
    for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j)
      largest = std::max(largest, std::fabs(values[j]));
    // Half a step, and the scale's own rounding on the largest.
    EXPECT_LE(std::fabs(back[i] - values[i]), largest * (0.5001F / 127 + 0x1p-11F)) << i;
  }
}

using Value = double (*)(int);

/// Blocks of 32 of value(0), value(1) and so on: halves between codes, any numbers, zeros, a scale
/// that is a denormal f16, then `more`.
std::vector<float> awkward_values(std::initializer_list<Value> more) {
  std::vector<Value> blocks = {[](int i) { return i == 31 ? -127.0 : (i - 16) * 0.5; },
                               [](int i) { return (i * 37 % 101 - 50) / 16.0; },
                               [](int) { return 0.0; },
                               [](int i) { return (i * i - 300) * 0x1p-20; }};
  blocks.insert(blocks.end(), more);
  std::vector<float> values;
  for (const Value value : blocks)
    for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(value(i)));
  return values;
}

std::string narrowed(TensorType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() / 32 * static_cast<size_t>(block_layout(type).bytes));
  EXPECT_TRUE(narrow(type, values, bytes));
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  return hex;
}

// gguf.quants.quantize(x, type).tobytes().hex()
TEST(Narrow, CodesOfFourBitsAreThePackages) {
  // Two values of the largest magnitude; equal values.
  const std::vector<float> values = awkward_values(
      {[](int i) { return i == 3    ? 8.0
                          : i == 20 ? -8.0
                                    : i / 4.0; }, [](int) { return 2.5; }});
  EXPECT_EQ(narrowed(TensorType::q4_0, values),
            "f04b87888888888888888888888888888808"
            "4036e046acf258bd1379df358be046acf268"
            "008088888888888888888888888888888888"
            "2a859c8c8c7c7b6b6b5b5b4b3a3a2a1a1909"
            "00bc48484830f73737262626261515151504"
            "00b500000000000000000000000000000000");
  EXPECT_EQ(narrowed(TensorType::q4_1, values),
            "7748f0d7ededededeeeefefefefefefefefefe0e"
            "ab3640c2d0369bf257bd1369ce258ae0469cf258"
            "0000000000000000000000000000000000000000"
            "0104b08c405050606070818191a1b2b2c2d3e3f4"
            "443c00c8b7b8c8cf08c9d9d9d9daeaeaeaebfbfb"
            "0000004100000000000000000000000000000000");
}

// The same function of the package.
TEST(Narrow, CodesOfEightBitsAreThePackages) {
  // A scale that is 0 in f16 while the codes are not.
  EXPECT_EQ(narrowed(TensorType::q8_0, awkward_values({[](int i) { return (i - 11) * 0x1p-40; }})),
            "003cf8f8f9f9fafafbfbfcfcfdfdfefeffff00010102020303040405050606070781"
            "4d2681df3d9af856b41270cd2b89e745a2005ebb1977d53390ee4caa0866c3217fdc"
            "00000000000000000000000000000000000000000000000000000000000000000000"
            "5300c6c7c7c8c9cbcdd0d3d6dadee2e7ecf2f8fe050c131b232c353e48525d68737f"
            "0000bac0c7cdd4dae0e7edf3fa00060d131920262c333940464c53595f666c72797f");
}

TEST(Narrow, CodesOfFourBitsAreWithinAStep) {
  std::vector<float> values(32 * 7);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
  for (const TensorType type : {TensorType::q4_0, TensorType::q4_1}) {
    std::vector<std::byte> bytes(7 * static_cast<size_t>(block_layout(type).bytes));
    ASSERT_TRUE(narrow(type, values, bytes));
    const std::vector<float> back = widened(type, bytes);
    // Sixteen codes over the range -1 to 1; at its far end Q4_0 is short of a code.
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_LE(std::fabs(back[i] - values[i]), type == TensorType::q4_0 ? 0.126F : 0.0675F) << i;
  }
}

TEST(Narrow, WhatDoesNotFitIsRefused) {
  std::vector<float> values(32, 0.5F);
  std::vector<std::byte> bytes(64);
  values[7] = 65520;
  EXPECT_FALSE(narrow(TensorType::f16, values, bytes));
  EXPECT_TRUE(narrow(TensorType::bf16, values, bytes));
  values[7] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(narrow(TensorType::f16, values, bytes));
  EXPECT_FALSE(narrow(TensorType::q8_0, values, std::span(bytes).first(34)));
  // 65519.99 is the last that f16 rounds to a finite number.
  for (const auto& [value, fits] :
       {std::pair{1.0F, true}, {-127 * 65519.0F, true}, {-127 * 65521.0F, false}}) {
    std::vector<float> others(32, 0.5F);
    others[17] = value;
    EXPECT_EQ(narrow(TensorType::q8_0, others, std::span(bytes).first(34)), fits) << value;
  }
  for (const auto& [type, size] : {std::pair{TensorType::q4_0, 18}, {TensorType::q4_1, 20}}) {
    const auto block = std::span(bytes).first(static_cast<size_t>(size));
    EXPECT_FALSE(narrow(type, values, block));
    values[7] = 65504 * 17.0F;  // the scale does not fit
    EXPECT_FALSE(narrow(type, values, block));
    values[7] = 0x1p-140F;  // the scale of such values has no reciprocal
    std::vector<float> tiny(32, values[7]);
    EXPECT_TRUE(narrow(type, tiny, block));
    EXPECT_EQ(widened(type, {block.begin(), block.end()}), std::vector<float>(32, 0));
    values[7] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_THROW(static_cast<void>(narrow(TensorType::q5_0, values, std::span(bytes).first(22))),
               InternalError);
}

}  // namespace
}  // namespace megalith::gguf
