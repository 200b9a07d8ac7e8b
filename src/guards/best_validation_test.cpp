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
  EXPECT_EQ(best.loss(), 2.5);
}

TEST(BestValidation, IsStateThatComesBack) {
  BestValidation best, back;
  back.restore(best.to_json());
  EXPECT_EQ(back.step(), std::nullopt);
  best.observe(10, 0.1);
  best.observe(20, 0.2);
  back.restore(nlohmann::json::parse(best.to_json().dump()));
  EXPECT_EQ(back.step(), 10);
  EXPECT_EQ(back.loss(), 0.1);
  EXPECT_EQ(back.no_better(), 1);
  for (const char* text : {"{}", R"({"no_better": -1})", R"({"no_better": 0, "step": 1})",
                           R"({"no_better": 0, "step": 1, "loss": "low"})", "[]"})
    EXPECT_THROW(back.restore(nlohmann::json::parse(text)), IntegrityError) << text;
}

}  // namespace
}  // namespace megalith::guards
