// SPDX-License-Identifier: Apache-2.0
#include "text/ids_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace megalith::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string fault_of(const std::string& json) {
  try {
    parse_ids_json(json, "ids.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(IdsJson, BothForms) {
  EXPECT_THAT(parse_ids_json("[1, 0,2147483647]", ""), ElementsAre(1, 0, 2147483647));
  EXPECT_THAT(parse_ids_json(R"({"seconds": 0.5, "ids": [7]})", ""), ElementsAre(7));
  EXPECT_THAT(parse_ids_json("[]", ""), IsEmpty());
}

TEST(IdsJson, WhatIsNoIdIsNamedByItsEntry) {
  for (const char* bad :
       {"-1", "2147483648", "1.0", "1e2", "\"3\"", "null", "true", "[3]", "18446744073709551615"})
    EXPECT_EQ(fault_of("[5, " + std::string(bad) + "]"), "ids.json: entry 1 is not a token id")
        << bad;
}

TEST(IdsJson, WhatIsNoListIsRefused) {
  for (const char* bad : {"{}", "3", "\"ids\"", R"({"ids": {"ids": []}})", "null"})
    EXPECT_THAT(fault_of(bad), HasSubstr("is not JSON of the form")) << bad;
  EXPECT_THAT(fault_of(R"({"ids": [1], "ids": [2]})"), HasSubstr("twice"));
  for (const std::string& bad :
       {std::string(), std::string("["), std::string("[1]]"), std::string("[1,]"),
        std::string("\0[1]", 4), std::string(1'000'000, '['), std::string("[1] \xff")})
    EXPECT_THAT(fault_of(bad), HasSubstr("ids.json: is not JSON"));
}

}  // namespace
}  // namespace megalith::text
