// SPDX-License-Identifier: Apache-2.0
// Rates come back as they were kept, and nothing else does.
#include "kernels/matmul/product_rates_json.h"

#include <gtest/gtest.h>

namespace megalith::kernels {
namespace {

ProductRates some_rates() {
  ProductRates rates;
  for (size_t i = 0; i < rates.size(); ++i)
    rates[i] = {1e9 + static_cast<double>(i), i % 2 == 0 ? 0.0 : 3.3e11};
  return rates;
}

TEST(ProductRatesJson, ComeBackToTheBitOnTheirMachine) {
  const std::string text = rates_text(some_rates(), "cpu|4 threads");
  const auto rates = rates_in(text, "cpu|4 threads");
  ASSERT_TRUE(rates.has_value());
  for (size_t i = 0; i < rates->size(); ++i) {
    EXPECT_EQ((*rates)[i].exact, some_rates()[i].exact);
    EXPECT_EQ((*rates)[i].library, some_rates()[i].library);
  }
  EXPECT_FALSE(rates_in(text, "cpu|8 threads").has_value());
}

TEST(ProductRatesJson, WhatIsNoneIsMeasuredAnew) {
  const std::string text = rates_text(some_rates(), "cpu");
  for (size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_FALSE(rates_in(text.substr(0, size), "cpu").has_value()) << size;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return rates_in(changed.replace(at, from.size(), to), "cpu");
  };
  EXPECT_TRUE(with("1000000000.0", "2e9").has_value());
  for (const char* rate : {"0", "-1", "1e300", "null", "\"1e9\"", "[]", "1e999"})
    EXPECT_FALSE(with("1000000000.0", rate).has_value()) << rate;
  EXPECT_FALSE(with("330000000000.0", "-1").has_value());
  EXPECT_FALSE(with("\"exact\"", "\"exakt\"").has_value());
  EXPECT_FALSE(with("\"rates\"", "\"rate\"").has_value());
  EXPECT_FALSE(with("\"bf16 forward, small\"", "\"f32 forward, small\"").has_value());
  EXPECT_FALSE(with("\"bf16 forward, small\"", "1").has_value());
  EXPECT_FALSE(with("\"class\"", "\"klass\"").has_value());
  EXPECT_FALSE(with("\"cpu\"", "3").has_value());
  EXPECT_FALSE(rates_in(R"({"machine": "cpu", "rates": {}})", "cpu").has_value());
  EXPECT_FALSE(rates_in(R"({"machine": "cpu", "rates": []})", "cpu").has_value());
}

}  // namespace
}  // namespace megalith::kernels
