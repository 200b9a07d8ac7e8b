// SPDX-License-Identifier: Apache-2.0
#include "characters/code_class.h"

#include <gtest/gtest.h>

#include <vector>

namespace megalith::characters {
namespace {

// Counts of Unicode 16.0 (DerivedGeneralCategory.txt), and the 25 characters of White_Space.
TEST(CodeClass, CountsAreThoseOfTheStatedVersion) {
  std::array<int, 4> counts{};
  for (uint32_t code = 0; code < 0x110000; ++code) ++counts[static_cast<size_t>(class_of(code))];
  EXPECT_EQ(unicode_version(), "16.0.0");
  EXPECT_EQ(counts[static_cast<size_t>(CodeClass::letter)], 141028);
  EXPECT_EQ(counts[static_cast<size_t>(CodeClass::number)], 1911);
  EXPECT_EQ(counts[static_cast<size_t>(CodeClass::space)], 25);
}

TEST(CodeClass, KnownCharacters) {
  const auto expect = [](CodeClass expected, std::vector<uint32_t> codes) {
    for (const uint32_t code : codes) EXPECT_EQ(class_of(code), expected) << std::hex << code;
  };
  expect(CodeClass::letter, {'a', 'z', 'A', 0xAA, 0xB5, 0xE9, 0x17F, 0x3B1, 0x5D0, 0x4E2D, 0xAC00,
                             0x20000, 0x1D400, 0x10D4A /* new in 16.0 */, 0x323AF});
  expect(CodeClass::number, {'0', '9', 0xB2, 0xBD, 0x660, 0x2167, 0x3007, 0x1D7CE, 0x1FBF0});
  expect(CodeClass::space, {9, 10, 11, 12, 13, ' ', 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028,
                            0x2029, 0x202F, 0x205F, 0x3000});
  expect(CodeClass::other, {0, 0x1C, 0x1F, '\'', '_', 0x7F, 0xAD, 0x300, 0x180E, 0x200B, 0x200D,
                            0x2060, 0xFEFF, 0xFFFD, 0x1F600, 0x323B0, 0xE0001, 0x10FFFF});
}

TEST(CodeClass, WordCharacters) {
  for (const uint32_t code : {uint32_t{'a'}, uint32_t{'_'}, uint32_t{'7'}, 0xE9u, 0x301u, 0x203Fu,
                              0x2160u, 0x24B6u, 0x200Du, 0x4E2Du, 0x1F130u})
    EXPECT_TRUE(is_word_code(code)) << std::hex << code;
  for (const uint32_t code :
       {uint32_t{'-'}, uint32_t{' '}, 0u, 0xB2u, 0x2028u, 0x1F600u, 0x10FFFFu})
    EXPECT_FALSE(is_word_code(code)) << std::hex << code;
}

}  // namespace
}  // namespace megalith::characters
