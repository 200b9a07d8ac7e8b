// SPDX-License-Identifier: Apache-2.0
#include "tokenize/byte_level.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace megalith::tokenize {
namespace {

TEST(ByteLevel, KnownCharacters) {
  EXPECT_EQ(bytes_to_token("Hello, world\n"), "Hello,\xC4\xA0world\xC4\x8A");  // U+0120, U+010A
  EXPECT_EQ(byte_characters()[0x00], 0x100);
  EXPECT_EQ(byte_characters()[0x7F], 0x121);
  EXPECT_EQ(byte_characters()[0x80], 0x122);
  EXPECT_EQ(byte_characters()[0xA0], 0x142);
  EXPECT_EQ(byte_characters()[0xAD], 0x143);
  EXPECT_EQ(byte_characters()[0xFF], 0xFF);
}

TEST(ByteLevel, AllBytesComeBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(token_to_bytes(bytes_to_token(bytes)), bytes);
}

TEST(ByteLevel, CharactersOutsideTheAlphabetAreNotBytes) {
  for (const char* token : {" ", "\n", "\xC2\xA0", "\xC2\xAD", "\xC5\x84", "\xE4\xB8\xAD", "a b"})
    EXPECT_EQ(token_to_bytes(token), std::nullopt) << token;
  EXPECT_EQ(token_to_bytes("\xC5\x83"), "\xAD");  // U+0143, the last of the alphabet
}

TEST(ByteLevel, OrderOfIdsIsOrderOfCharacters) {
  const std::array<uint8_t, 256> order = bytes_by_character();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(), [](uint8_t a, uint8_t b) {
    return byte_characters()[a] < byte_characters()[b];
  }));
  EXPECT_EQ(order[0], '!');
  EXPECT_EQ(order[188], 0x00);  // after the 188 bytes that stand for themselves
  EXPECT_EQ(order[255], 0xAD);
}

}  // namespace
}  // namespace megalith::tokenize
