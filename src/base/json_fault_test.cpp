// SPDX-License-Identifier: Apache-2.0
#include "base/json_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megalith {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string fault_of(std::string_view text, size_t most_levels = 64) {
  return json_fault(text, most_levels).value_or("none");
}

TEST(JsonFault, SoundDocumentsPass) {
  for (const std::string_view text :
       {"{}", "[]", "1", " null ", R"({"a": [1, -2.5e3, true, null, "x"], "b": {"a": 1}})",
        R"([{"a": 1}, {"a": 1}])"})
    EXPECT_EQ(fault_of(text), "none") << text;
}

TEST(JsonFault, SyntaxIsNamedShortly) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("{} x"), std::string("{\"\xff\": 1}"),
        std::string("[1,]"), std::string("NaN"), "[" + std::string(1 << 20, 'x')}) {
    EXPECT_THAT(fault_of(text), StartsWith("is not JSON"));
    EXPECT_LT(fault_of(text).size(), 300u);
  }
}

TEST(JsonFault, KeysGivenTwice) {
  EXPECT_EQ(fault_of(R"({"a": 1, "a": 2})"), "names 'a' twice");
  EXPECT_EQ(fault_of(R"({"x": [{"a": 1, "b": 2, "\u0061": 3}]})"), "names 'a' twice");
}

TEST(JsonFault, DepthIsCountedExactly) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(fault_of(nested(64)), "none");
  EXPECT_THAT(fault_of(nested(65)), HasSubstr("more than 64 levels"));
  EXPECT_EQ(fault_of(R"({"a": [{}]})", 3), "none");
  EXPECT_THAT(fault_of(R"({"a": [{}]})", 2), HasSubstr("nested too deeply"));
  EXPECT_THAT(fault_of(std::string(10'000'000, '[')), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace megalith
