// SPDX-License-Identifier: Apache-2.0
#include "characters/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace megalith::characters {
namespace {

constexpr size_t kNone = std::string_view::npos;
using namespace std::string_literals;

std::string repaired(std::string_view bytes) {
  std::string text;
  append_repaired_utf8(text, bytes);
  return text;
}

TEST(Utf8, EveryScalarValueSurvivesWritingAndReading) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const CodePoint point = read_utf8(text.data());
    ASSERT_EQ(point.code, code);
    ASSERT_EQ(point.length, text.size());
    ASSERT_EQ(find_invalid_utf8(text), kNone);
    ASSERT_EQ(previous_character(text.data(), text.data() + text.size()), text.data());
  }
}

TEST(Utf8, FirstInvalidByteIsFound) {
  EXPECT_EQ(find_invalid_utf8(""), kNone);
  EXPECT_EQ(find_invalid_utf8("plain"), kNone);
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u);
  EXPECT_EQ(find_invalid_utf8("ab\xC0\xAF"), 2u);            // overlong
  EXPECT_EQ(find_invalid_utf8("\xC3\xA9\xED\xA0\x80"), 2u);  // surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);      // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("abc\xE4\xB8"), 3u);           // cut off
  EXPECT_EQ(find_invalid_utf8(std::string(100, 'a') + "\xFF"), 100u);
}

TEST(Utf8, ErrorNamesTheByteOffset) {
  EXPECT_THAT([] { require_utf8("abc\xFF", "in.txt"); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("in.txt is not valid UTF-8 at "
                                                                   "byte 3 (0xff)")));
}

// The examples of the Unicode standard, tables 3-8 to 3-11.
TEST(Utf8, RepairReplacesEachMaximalPartOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                     "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                     "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF"
                     "A\x80\xBF"
                     "B"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                     "A"),
            r + r + r + r + "A");
  EXPECT_EQ(repaired("ok\0\xC3\xA9"s), "ok\0\xC3\xA9"s);
  EXPECT_EQ(repaired("x\xF0\x9F\x98"), "x" + r);
}

TEST(Utf8, HeldTailIsWhatMoreBytesCouldComplete) {
  const auto held = [](std::string_view bytes) {
    std::string text;
    return bytes.size() - append_repaired_utf8(text, bytes, true);
  };
  EXPECT_EQ(held("abc"), 0u);
  EXPECT_EQ(held("abc\xC3"), 1u);
  EXPECT_EQ(held("abc\xF0\x9F\x98"), 3u);
  EXPECT_EQ(held("abc\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(held("abc\xFF"), 0u);      // nothing can complete it
  EXPECT_EQ(held("abc\xED\xA0"), 0u);  // nor the start of a surrogate
}

// Repair in pieces, carrying the held tail on, is repair of the whole.
TEST(Utf8, RepairInPiecesIsRepairOfTheWhole) {
  std::mt19937 draw(1);
  constexpr uint8_t kBytes[] = {'a',  0x80, 0xBF, 0xC3, 0xE0, 0xE4,
                                0xED, 0xF0, 0xF4, 0x90, 0xA0, 0xFF};
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes, held, joined;
    for (size_t i = draw() % 12; i > 0; --i)
      bytes.push_back(static_cast<char>(kBytes[draw() % std::size(kBytes)]));
    for (const char byte : bytes) {
      held.push_back(byte);
      held.erase(0, append_repaired_utf8(joined, held, true));
    }
    append_repaired_utf8(joined, held);
    ASSERT_EQ(joined, repaired(bytes));
    ASSERT_EQ(find_invalid_utf8(joined), kNone);
  }
}

}  // namespace
}  // namespace megalith::characters
