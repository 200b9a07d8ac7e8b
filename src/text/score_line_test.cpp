// SPDX-License-Identifier: Apache-2.0
// What a line to score may be, and what is wrong with one that is none.
#include "text/score_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::text {
namespace {

using ::testing::HasSubstr;

std::string fault(std::string_view line) {
  try {
    parse_score_line(line);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ScoreLine, IsATextOrIds) {
  EXPECT_EQ(parse_score_line(R"({"text": "a\u00e9", "n": [1]})").text, "a\u00e9");
  EXPECT_EQ(parse_score_line(R"({"text": 3, "ids": [0, 2147483647]})").ids,
            (std::vector<int32_t>{0, 2147483647}));
  EXPECT_TRUE(parse_score_line(R"({"ids": []})").ids.empty());
}

TEST(ScoreLine, OfTwoTextsOrWithTypes) {
  const ScoreLine two = parse_score_line(R"({"pair": "b", "text": "a"})");
  EXPECT_EQ(two.text, "a");
  EXPECT_EQ(two.pair, "b");
  const ScoreLine typed = parse_score_line(R"({"ids": [4, 5], "type_ids": [0, 1]})");
  EXPECT_FALSE(typed.text.has_value());
  EXPECT_EQ(typed.type_ids, (std::vector<int32_t>{0, 1}));
}

TEST(ScoreLine, WhatIsNoneIsRefusedByName) {
  EXPECT_THAT(fault(R"({"text": "a", "pair": 3})"), HasSubstr("\"pair\" that is not a text"));
  EXPECT_THAT(fault(R"({"ids": [1], "type_ids": [-1]})"), HasSubstr("entry 0 of \"type_ids\""));
  EXPECT_THAT(fault(""), HasSubstr("not JSON"));
  EXPECT_THAT(fault("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(fault("{}"), HasSubstr("neither"));
  EXPECT_THAT(fault(R"({"text": 3})"), HasSubstr("neither"));
  EXPECT_THAT(fault(R"({"ids": "1"})"), HasSubstr("not a list"));
  EXPECT_THAT(fault(R"({"ids": [1], "ids": [2]})"), HasSubstr("twice"));
  for (const char* id : {"-1", "2147483648", "1.0", "18446744073709551615", "\"1\"", "null", "[1]"})
    EXPECT_THAT(fault(std::string(R"({"ids": [7, )") + id + "]}"), HasSubstr("entry 1 of")) << id;
}

}  // namespace
}  // namespace megalith::text
