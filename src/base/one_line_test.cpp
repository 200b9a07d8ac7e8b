// SPDX-License-Identifier: Apache-2.0
#include "base/one_line.h"

#include <gtest/gtest.h>

namespace megalith {
namespace {

TEST(OneLine, TextStaysAsItIs) {
  const std::string text = "a b: 'ö', \xE4\xB8\xAD\xF0\x9F\x99\x82 (\\n)";
  EXPECT_EQ(one_line(text), text);
  EXPECT_EQ(one_line(""), "");
}

TEST(OneLine, NothingLeavesTheLineOrMovesTheCursor) {
  EXPECT_EQ(one_line("a\nb\r\nc\td"), "a b  c d");
  EXPECT_EQ(one_line("\x1b[2J\x07"), "\\x1b[2J\\x07");
  EXPECT_EQ(one_line(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(one_line("\xC2\x9B"
                     "1m"),
            "\\xc2\\x9b1m");  // C1: a terminal may take it for ESC [
}

TEST(OneLine, BytesThatAreNoTextAreSpelledOut) {
  EXPECT_EQ(one_line("a\xff\xC0\x80"), "a\\xff\\xc0\\x80");
  EXPECT_EQ(one_line("\xED\xA0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(one_line("\xE4\xB8"), "\\xe4\\xb8");
}

TEST(OneLine, LengthIsBoundedBetweenCharacters) {
  EXPECT_EQ(one_line("abcdef", 6), "abcdef");
  EXPECT_EQ(one_line("abcdef", 5), "abcde...");
  EXPECT_EQ(one_line("abc\xC3\xB6", 4), "abc...");
  EXPECT_LT(one_line(std::string(100'000'000, '\xff')).size(), 20'000u);
}

}  // namespace
}  // namespace megalith
