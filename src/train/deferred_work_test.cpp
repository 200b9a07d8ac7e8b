// SPDX-License-Identifier: Apache-2.0
#include "train/deferred_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::train {
namespace {

DeferredWork owed_step() {
  DeferredWork owed;
  owed.line.step = 7;
  owed.line.tokens = 700;
  owed.line.samples = 70;
  owed.line.loss = 1.0 / 3;
  owed.line.lr = 0.1;
  owed.line.grad_norm = std::numeric_limits<double>::infinity();
  owed.line.step_seconds = 2.0 / 3;
  return owed;
}

nlohmann::json state_with(const DeferredWork& owed) {
  return {{"owed", nlohmann::json::parse(to_json(owed).dump())}};
}

TEST(DeferredWork, ComesBackToTheBit) {
  DeferredWork owed = owed_step();
  const auto back = deferred_from(state_with(owed), 7);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->line.to_json_line(), owed.line.to_json_line());
  EXPECT_TRUE(std::isinf(back->line.grad_norm));
  EXPECT_EQ(back->what, DeferredWork::What::validation);
  owed = owed_step();
  owed.what = DeferredWork::What::samples;
  const auto samples = deferred_from(state_with(owed), 7);
  EXPECT_EQ(samples->what, DeferredWork::What::samples);
  EXPECT_FALSE(deferred_from({{"step", 7}}, 7).has_value());
}

TEST(DeferredWork, WhatIsNoneIsRefused) {
  EXPECT_THROW(deferred_from(state_with(owed_step()), 8), IntegrityError);
  for (const char* text :
       {R"([])", R"({"what": "validation"})", R"({"what": "lunch", "line": "{}"})",
        R"({"what": 1, "line": "{}"})", R"({"what": "samples", "line": "{}"})",
        R"({"what": "samples", "line": 5})"}) {
    EXPECT_THROW(deferred_from({{"owed", nlohmann::json::parse(text)}}, 7), IntegrityError) << text;
  }
}

}  // namespace
}  // namespace megalith::train
