// SPDX-License-Identifier: Apache-2.0
#include "tensor/q8_0.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace megalith {
namespace {

/// Codes and scales of whole blocks.
struct Blocks {
  std::vector<int8_t> codes;
  std::vector<f16_t> scales;
  explicit Blocks(size_t count) : codes(count * kQ8BlockCodes), scales(count) {}

  std::vector<std::byte> packed() const {
    std::vector<std::byte> bytes(scales.size() * kQ8BlockBytes);
    pack_q8_0(codes, scales, bytes);
    return bytes;
  }
};

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// Halves between codes; any numbers; zeros; a scale that is a denormal f16; one that is 0 there
/// while the codes are not.
std::vector<float> awkward_values() {
  std::vector<float> values;
  const auto add = [&](const auto& value) {
    for (int i = 0; i < kQ8BlockCodes; ++i) values.push_back(static_cast<float>(value(i)));
  };
  add([](int i) { return i == 31 ? -127.0 : (i - 16) * 0.5; });
  add([](int i) { return (i * 37 % 101 - 50) / 16.0; });
  add([](int) { return 0.0; });
  add([](int i) { return (i * i - 300) * 0x1p-20; });
  add([](int i) { return (i - 11) * 0x1p-40; });
  return values;
}

// gguf 0.19.0 from PyPI:
//   gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0).tobytes().hex()
constexpr std::string_view kGguf =
    "003cf8f8f9f9fafafbfbfcfcfdfdfefeffff00010102020303040405050606070781"
    "4d2681df3d9af856b41270cd2b89e745a2005ebb1977d53390ee4caa0866c3217fdc"
    "00000000000000000000000000000000000000000000000000000000000000000000"
    "5300c6c7c7c8c9cbcdd0d3d6dadee2e7ecf2f8fe050c131b232c353e48525d68737f"
    "0000bac0c7cdd4dae0e7edf3fa00060d131920262c333940464c53595f666c72797f";

TEST(Q80, QuantisesToTheBytesOfGguf) {
  Blocks blocks(5);
  ASSERT_TRUE(quantize_q8_0(awkward_values(), blocks.codes, blocks.scales));
  EXPECT_EQ(blocks.packed(), from_hex(kGguf));
}

TEST(Q80, QuantisesBf16AsTheNumbersThatItHolds) {
  std::vector<bf16_t> narrow;
  std::vector<float> widened;
  for (const float value : awkward_values()) {
    narrow.push_back(to_bf16(value));
    widened.push_back(to_f32(narrow.back()));
  }
  Blocks from_narrow(5), from_widened(5);
  ASSERT_TRUE(quantize_q8_0(narrow, from_narrow.codes, from_narrow.scales));
  ASSERT_TRUE(quantize_q8_0(widened, from_widened.codes, from_widened.scales));
  EXPECT_EQ(from_narrow.packed(), from_widened.packed());
}

TEST(Q80, BlocksOfAFileComeBackByteForByte) {
  std::vector<std::byte> bytes(7 * kQ8BlockBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 167 + 13);
  Blocks blocks(7);
  unpack_q8_0(bytes, blocks.codes, blocks.scales);
  EXPECT_EQ(blocks.scales[1].bits, (34u * 167 + 13) % 256 | ((35u * 167 + 13) % 256) << 8);
  EXPECT_EQ(blocks.codes[32], static_cast<int8_t>((36 * 167 + 13) % 256));
  EXPECT_EQ(blocks.packed(), bytes);
}

/// Half a step of the codes, the scale's own rounding on the largest of them, and that of 1 / d.
TEST(Q80, ValuesComeBackWithinHalfAStep) {
  const std::vector<float> values = awkward_values();
  Blocks blocks(5);
  ASSERT_TRUE(quantize_q8_0(values, blocks.codes, blocks.scales));
  std::vector<float> back(values.size());
  dequantize_q8_0(blocks.codes, blocks.scales, back);
  for (size_t i = 0; i < values.size(); ++i) {
    float largest = 0;
    for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j)
      largest = std::max(largest, std::fabs(values[j]));
    const float step = largest / 127, rounding = std::max(step * 0x1p-11f, 0x1p-25f);
    EXPECT_LE(std::fabs(back[i] - values[i]), 0.5001f * step + 127 * rounding) << i;
  }
}

TEST(Q80, NumbersWithoutACodeAreRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Blocks block(1);
  // 65519.99 is the last that f16 rounds to a finite number.
  for (const auto& [value, fits] : {std::pair{1.0f, true},
                                    {127 * 65519.0f, true},
                                    {127 * 65521.0f, false},
                                    {kInfinity, false},
                                    {std::nanf(""), false}}) {
    std::vector<float> values(kQ8BlockCodes, 0.5f);
    values[17] = -value;
    EXPECT_EQ(quantize_q8_0(values, block.codes, block.scales), fits) << value;
  }
  // 1 / d overflows.
  const std::vector<float> tiny(kQ8BlockCodes, 0x1p-127f);
  EXPECT_TRUE(quantize_q8_0(tiny, block.codes, block.scales));
  EXPECT_EQ(block.packed(), std::vector<std::byte>(kQ8BlockBytes));
}

TEST(Q80, SizesThatDoNotFitAreFound) {
  Blocks blocks(2);
  std::vector<float> values(63);
  std::vector<std::byte> bytes(67);
  EXPECT_THROW(unpack_q8_0(bytes, blocks.codes, blocks.scales), InternalError);
  EXPECT_THROW(pack_q8_0(blocks.codes, blocks.scales, bytes), InternalError);
  EXPECT_THROW(dequantize_q8_0(blocks.codes, blocks.scales, values), InternalError);
  EXPECT_THROW(static_cast<void>(quantize_q8_0(values, blocks.codes, blocks.scales)),
               InternalError);
}

}  // namespace
}  // namespace megalith
