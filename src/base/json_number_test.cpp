// SPDX-License-Identifier: Apache-2.0
#include "base/json_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(JsonNumber, WholeNumbersAreTakenToTheLast) {
  const auto json = nlohmann::json::parse(R"({"a": 0, "b": 9223372036854775807})");
  EXPECT_EQ(whole_number(json, "a", "doc"), 0);
  EXPECT_EQ(whole_number(json, "b", "doc"), INT64_MAX);
  EXPECT_EQ(whole_number({{"c", int64_t{5}}}, "c", "doc"), 5);
  EXPECT_EQ(whole_number({{"c", 5}}, "c", "doc", 5), 5);
  EXPECT_THAT(
      [] {
        whole_number({{"c", 5}}, "c", "doc", 4);
      },
      ThrowsMessage<IntegrityError>(HasSubstr("doc: 'c' is 5")));
}

TEST(JsonNumber, AnyWholeNumberThatFits) {
  const auto in = [](const char* text) { return whole_number_in(nlohmann::json::parse(text)); };
  EXPECT_EQ(in("0"), 0);
  EXPECT_EQ(in("-1"), -1);
  EXPECT_EQ(in("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(in("-9223372036854775808"), INT64_MIN);
  for (const char* text : {"1.0", "1e3", "9223372036854775808", "-9223372036854775809", "\"1\"",
                           "null", "true", "[1]"})
    EXPECT_EQ(in(text), std::nullopt) << text;
}

TEST(JsonNumber, WhatIsNoneIsRefusedByName) {
  for (const char* value : {"-1", "1.0", "1e300", "-1e300", "9223372036854775808",
                            "18446744073709551615", "1e19", "\"1\"", "null", "true", "[1]"}) {
    const auto json = nlohmann::json::parse(std::string("{\"n\": ") + value + "}");
    EXPECT_THAT([&] { whole_number(json, "n", "doc"); },
                ThrowsMessage<IntegrityError>(HasSubstr("'n'")))
        << value;
  }
  EXPECT_THAT(
      [] {
        whole_number({{"a", 1}}, "n", "doc");
      },
      ThrowsMessage<IntegrityError>(HasSubstr("'n' is missing")));
  EXPECT_THAT([] { whole_number(nlohmann::json::array({1}), "n", "doc"); },
              ThrowsMessage<IntegrityError>(HasSubstr("missing")));
}

TEST(JsonNumber, FiniteNumbers) {
  const auto json = nlohmann::json::parse(R"({"a": 1e300, "b": -2, "c": "x"})");
  EXPECT_EQ(finite_number(json, "a", "doc"), 1e300);
  EXPECT_EQ(finite_number(json, "b", "doc"), -2);
  EXPECT_THAT([&] { finite_number(json, "c", "doc"); },
              ThrowsMessage<IntegrityError>(AllOf(HasSubstr("'c'"), HasSubstr("\"x\""))));
  EXPECT_THAT([&] { finite_number(json, "d", "doc"); },
              ThrowsMessage<IntegrityError>(HasSubstr("missing")));
}

}  // namespace
}  // namespace megalith
