// SPDX-License-Identifier: Apache-2.0
#include "chat_values/python_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace megalith::chat {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PythonText, FloatsAreSpelledShortest) {
  // As repr() of CPython 3.11 gives them.
  for (const auto& [value, text] : std::initializer_list<std::pair<double, const char*>>{
           {0, "0.0"},
           {-0.0, "-0.0"},
           {1, "1.0"},
           {0.1, "0.1"},
           {1.0 / 3, "0.3333333333333333"},
           {100, "100.0"},
           {123456.789, "123456.789"},
           {1e15, "1000000000000000.0"},
           {1e16, "1e+16"},
           {1.5e16, "1.5e+16"},
           {9999999999999998, "9999999999999998.0"},
           {1e-4, "0.0001"},
           {0.00012345, "0.00012345"},
           {1e-5, "1e-05"},
           {-1.25e-7, "-1.25e-07"},
           {1e100, "1e+100"},
           {5e-324, "5e-324"},
           {std::numeric_limits<double>::max(), "1.7976931348623157e+308"},
           {std::numeric_limits<double>::infinity(), "inf"},
           {-std::numeric_limits<double>::infinity(), "-inf"}})
    EXPECT_EQ(repr_float(value), text);
  EXPECT_EQ(repr_float(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(PythonText, TextsAreQuotedAsPythonQuotes) {
  EXPECT_EQ(repr_text("a"), "'a'");
  EXPECT_EQ(repr_text("it's"), "\"it's\"");
  EXPECT_EQ(repr_text("\"it's\""), R"('"it\'s"')");
  EXPECT_EQ(repr_text("\\ \n\r\t\x1b\x7f"), R"('\\ \n\r\t\x1b\x7f')");
  EXPECT_EQ(repr_text("é🙂\xC2\xA0\xE2\x80\xA8\xF3\xB0\x80\x80"),
            R"('é🙂\xa0\u2028\U000f0000')");
}

TEST(PythonText, StripTakesUnicodeSpaceOrASet) {
  EXPECT_EQ(strip("\xE3\x80\x80 \x1C a\xC2\xA0", Side::both), "a");
  EXPECT_EQ(strip("  ", Side::left), "");
  EXPECT_EQ(strip("éaé", Side::left, "é"), "aé");
  EXPECT_EQ(strip("\xE2\x80\x8B"
                  "a",
                  Side::both),
            "\xE2\x80\x8B"
            "a");  // no white space in Python
}

TEST(PythonText, Cases) {
  EXPECT_EQ(to_upper("straße ǆ"), "STRASSE Ǆ");
  EXPECT_EQ(to_lower("ΑΣ İ"), "ας i̇");
  EXPECT_EQ(capitalize("éA"), "Éa");
  EXPECT_EQ(capitalize("ßa"), "Ssa");
  EXPECT_EQ(to_title("they're 2nd-éa"), "They'Re 2Nd-Éa");
}

TEST(PythonText, Lines) {
  EXPECT_THAT(lines_of("a\nb\r\nc\r\rd\x0b"
                       "e\xC2\x85"
                       "f"),
              ElementsAre("a", "b", "c", "", "d", "e", "f"));
  EXPECT_THAT(lines_of("a\n"), ElementsAre("a"));
  EXPECT_THAT(lines_of("a\n\n", true), ElementsAre("a\n", "\n"));
  EXPECT_THAT(lines_of(""), IsEmpty());
}

TEST(PythonText, Replace) {
  Budget budget{Limits()};
  EXPECT_EQ(replace_text("aXbX", "X", "--", -1, budget), "a--b--");
  EXPECT_EQ(replace_text("aXbX", "X", "", 1, budget), "abX");
  EXPECT_EQ(replace_text("éa", "", "-", -1, budget), "-é-a-");
  EXPECT_EQ(replace_text("ab", "", "-", 2, budget), "-a-b");
  EXPECT_EQ(replace_text("", "", "-", -1, budget), "-");
}

}  // namespace
}  // namespace megalith::chat
