// SPDX-License-Identifier: Apache-2.0
#include "serve/access.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "serve/metrics.h"
#include "serve/work.h"

namespace megalith::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ApiKeys, AreLines) {
  EXPECT_THAT(parse_api_keys("# of the team\nabc\r\n\nd-e_f\n", "keys"),
              ElementsAre("abc", "d-e_f"));
  EXPECT_THROW(parse_api_keys("# none\n", "keys"), UserError);
  EXPECT_THROW(parse_api_keys("a b\n", "keys"), UserError);
}

TEST(ApiKeys, AreBorneWhole) {
  const std::vector<std::string> keys{"abc", "defg"};
  const auto key = [&](const std::string& header) { return key_of(header, keys); };
  EXPECT_EQ(key("Bearer defg"), 1u);
  EXPECT_EQ(key("bearer abc"), 0u);
  for (const char* wrong :
       {"Bearer ab", "Bearer abcd", "Bearer  abc", "abc", "", "Bearer", "Basic abc"})
    EXPECT_EQ(key(wrong), std::nullopt) << wrong;
  EXPECT_EQ(key_of("", keys), std::nullopt);
}

TEST(Origins, AreTheServersOwnUnlessAllowed) {
  const auto from = [](const std::string& origin, std::vector<std::string> allowed = {}) {
    return may_ask({.headers = {{"host", "a:8000"}, {"origin", origin}}}, allowed);
  };
  EXPECT_TRUE(may_ask({.headers = {{"host", "a"}}}, {}));
  EXPECT_TRUE(from("http://a:8000"));
  EXPECT_FALSE(from("http://a:8001"));
  EXPECT_FALSE(from("https://evil.example"));
  EXPECT_FALSE(from("null"));
  EXPECT_TRUE(from("https://b.example", {"https://b.example"}));
  EXPECT_TRUE(from("https://c.example", {"*"}));
}

TEST(Paths, AreOfAModelAndAVerb) {
  const auto infer = model_path("/v2/models/m/versions/1/infer");
  ASSERT_TRUE(infer);
  EXPECT_EQ(infer->name, "m");
  EXPECT_EQ(infer->version, "1");
  EXPECT_EQ(infer->verb, "infer");
  EXPECT_EQ(model_path("/v2/models/m")->verb, "");
  EXPECT_FALSE(model_path("/v2/models/"));
  EXPECT_FALSE(model_path("/v2/models/m/infer/more"));
  EXPECT_FALSE(model_path("/v2/models/m/versions"));
  EXPECT_NE(work_of_path("/v1/completions"), nullptr);
  EXPECT_NE(work_of_path("/v2/models/m/generate_stream"), nullptr);
  EXPECT_EQ(work_of_path("/v1/completions/"), nullptr);
}

TEST(Metrics, AreInPrometheusForm) {
  Metrics metrics;
  metrics.started = 3;
  metrics.finish_reasons["stop"] = 2;
  metrics.first_token.add(0.03);
  metrics.first_token.add(0.04);
  metrics.first_token.add(1e9);
  EngineState engine;
  engine.running = 2;
  engine.cache_usage = 0.5;
  const std::string text = metrics.text("a\"b\n", engine);
  const std::string labels = R"({model_name="a\"b\n",engine="0"})";
  EXPECT_THAT(text, HasSubstr("# TYPE megalith:requests_running gauge\nmegalith:requests_running" +
                              labels + " 2\n"));
  EXPECT_THAT(text, HasSubstr("megalith:requests_started_total" + labels + " 3\n"));
  EXPECT_THAT(text, HasSubstr("megalith:kv_cache_usage" + labels + " 0.5\n"));
  EXPECT_THAT(text, HasSubstr(R"(finished_reason="stop"} 2)"));
  const std::string bucket =
      R"(vllm:time_to_first_token_seconds_bucket{model_name="a\"b\n",engine="0",le=")";
  EXPECT_THAT(text, HasSubstr(bucket + "0.02\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "0.04\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "+Inf\"} 3\n"));
}

}  // namespace
}  // namespace megalith::serve
