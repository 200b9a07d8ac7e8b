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
  EXPECT_EQ(std::get<std::string>(parse_score_line(R"({"text": "a\u00e9", "n": [1]})")), "a\u00e9");
  EXPECT_EQ(
      std::get<std::vector<int32_t>>(parse_score_line(R"({"text": 3, "ids": [0, 2147483647]})")),
      (std::vector<int32_t>{0, 2147483647}));
  EXPECT_TRUE(std::get<std::vector<int32_t>>(parse_score_line(R"({"ids": []})")).empty());
}

TEST(ScoreLine, WhatIsNoneIsRefusedByName) {
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
