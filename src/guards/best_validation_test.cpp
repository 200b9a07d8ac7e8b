// SPDX-License-Identifier: Apache-2.0
#include "guards/best_validation.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::guards {
namespace {

TEST(BestValidation, CountsThoseInARowThatAreNoLower) {
  BestValidation best;
  EXPECT_FALSE(best.gave_up(1));
  EXPECT_TRUE(best.observe(10, 3.0));
  EXPECT_FALSE(best.observe(20, 3.0));
  EXPECT_FALSE(best.gave_up(2));
  EXPECT_FALSE(best.observe(30, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(best.gave_up(2));
  EXPECT_FALSE(best.gave_up(0));
  EXPECT_TRUE(best.observe(40, 2.5));
  EXPECT_EQ(best.no_better(), 0);
  EXPECT_EQ(best.step(), 40);
  EXPECT_EQ(best.value(), 2.5);
}

TEST(BestValidation, OfAScoreIsTheHighest) {
  BestValidation best("f1");
  EXPECT_TRUE(best.observe(10, 0.0));
  EXPECT_TRUE(best.observe(20, 0.5));
  EXPECT_FALSE(best.observe(30, 0.5));
  EXPECT_FALSE(best.observe(40, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(best.observe(50, 0.25));
  EXPECT_EQ(best.step(), 20);
  EXPECT_EQ(best.value(), 0.5);
  EXPECT_EQ(best.no_better(), 3);
}

TEST(BestValidation, IsStateThatComesBack) {
  const auto again = [](const BestValidation& best) {
    return BestValidation::from_json(nlohmann::json::parse(best.to_json().dump()));
  };
  EXPECT_EQ(again(BestValidation()).step(), std::nullopt);
  for (const char* by : {"loss", "accuracy"}) {
    BestValidation best(by);
    best.observe(10, 0.1);
    best.observe(20, by == std::string("loss") ? 0.2 : 0.05);
    const BestValidation back = again(best);
    EXPECT_EQ(back.by(), by);
    EXPECT_EQ(back.step(), 10);
    EXPECT_EQ(back.value(), 0.1);
    EXPECT_EQ(back.no_better(), 1);
  }
  const auto from = [](const char* text) {
    return BestValidation::from_json(nlohmann::json::parse(text));
  };
  // As it was written before there were scores.
  EXPECT_EQ(from(R"({"no_better": 2, "step": 8, "loss": 0.5})").value(), 0.5);
  for (const char* text :
       {"{}", R"({"no_better": -1})", R"({"no_better": 0, "step": 1})",
        R"({"no_better": 0, "step": 1, "loss": "low"})", R"({"no_better": 0, "by": 3})",
        R"({"no_better": 0, "by": "f1", "step": 1, "loss": 0.5})", "[]"})
    EXPECT_THROW(from(text), IntegrityError) << text;
}

}  // namespace
}  // namespace megalith::guards
