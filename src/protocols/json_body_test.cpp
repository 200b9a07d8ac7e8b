// SPDX-License-Identifier: Apache-2.0
#include "protocols/json_body.h"

#include <gmock/gmock.h>

#include <limits>

#include "protocols/api_error.h"

namespace megalith::protocols {
namespace {

using ::testing::HasSubstr;

std::string fault_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_body(text, limits);
    return "no fault";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
}

std::string nested(size_t levels) {
  return R"({"x": )" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

TEST(JsonBody, TellsWhatIsWrong) {
  EXPECT_THAT(fault_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(fault_of(R"({"a": 1, "a": 2})"), HasSubstr("names 'a' twice"));
  EXPECT_THAT(fault_of(R"({"a": 1,})"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of(R"({"a": NaN})"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of(R"({"a": 1e400})"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of("{\"a\": \"\xff\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of("{\"a\": \"\xed\xa0\x80\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of(R"({"a": "\ud800"})"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of(R"({"a": 1} {"b": 2})"), HasSubstr("not JSON"));
}

TEST(JsonBody, IsBounded) {
  EXPECT_EQ(fault_of(nested(100)), "no fault");
  EXPECT_THAT(fault_of(nested(101)), HasSubstr("more than 100 levels"));
  EXPECT_THAT(fault_of("{\"x\": " + std::string(250'000, '[')), HasSubstr("nested too deeply"));
  const JsonLimits limits{.values = 5, .keys = 2, .number_digits = 6};
  EXPECT_EQ(fault_of(R"({"a": [1, 2, 3]})", limits), "no fault");
  EXPECT_THAT(fault_of(R"({"a": [1, 2, 3, 4]})", limits), HasSubstr("more than 5 values"));
  EXPECT_EQ(fault_of(R"({"a": 1, "b": 2})", limits), "no fault");
  EXPECT_THAT(fault_of(R"({"a": 1, "b": 2, "c": 3})", limits), HasSubstr("more than 2 keys"));
  EXPECT_EQ(fault_of(R"({"a": 1.2345})", limits), "no fault");
  EXPECT_THAT(fault_of(R"({"a": 1.23456})", limits), HasSubstr("more than 6 characters"));
}

TEST(JsonBody, HasNoNumberThatJsonCannotSay) {
  EXPECT_EQ(json_of_logprob(-1.5).dump(), "-1.5");
  EXPECT_EQ(json_of_logprob(-std::numeric_limits<double>::infinity()).dump(), "-9999.0");
  EXPECT_EQ(json_of_logprob(std::numeric_limits<double>::quiet_NaN()).dump(), "-9999.0");
  EXPECT_EQ(text_of_json({{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

TEST(ApiErrors, AreObjectsOfTheirProtocol) {
  const ApiError error("max_tokens", "too {}", "many");
  EXPECT_EQ(openai_error(error), R"({"error":{"message":"too many","type":"invalid_request_error",)"
                                 R"("param":"max_tokens","code":"invalid_value"}})");
  const ApiError full = ApiError("", "full").with_status(429).with_retry_after(1);
  EXPECT_EQ(openai_error(full), R"({"error":{"message":"full","type":"rate_limit_error",)"
                                R"("param":null,"code":"queue_full"}})");
  EXPECT_EQ(kserve_error(error), R"({"error":"too many"})");
}

}  // namespace
}  // namespace megalith::protocols
