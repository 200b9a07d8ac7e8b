// SPDX-License-Identifier: Apache-2.0
// What does not fit is refused with the smallest change that does.
#include "account/memory_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::account {
namespace {

using config::Recompute;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;

/// 100 MiB of state, as much for a snapshot, and activations by micro-batch and mode.
int64_t toy_plan(const config::Recipe& r) {
  const int64_t per_sample = r.memory.recompute == Recompute::none        ? 40
                             : r.memory.recompute == Recompute::selective ? 30
                                                                          : 10;
  const int64_t halved = r.precision.compute == config::Compute::bf16 ? 2 : 1;
  return kMiB * (100 + (r.checkpoint.async ? 100 : 0) + r.train.micro_batch * per_sample / halved);
}

/// The advice when `offered` MiB are there; empty when the run fits.
std::string advice(int64_t offered, int64_t processes = 1) {
  config::Recipe recipe;
  recipe.train.global_batch = 24;
  recipe.train.micro_batch = 12;
  device::AvailableMemory available;
  available.machine = available.machine_free = offered * kMiB + kOutsideBytes * processes;
  const auto plan = [](const config::Recipe& candidate) { return toy_plan(candidate); };
  try {
    check_memory(recipe, plan, available, processes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(MemoryFit, WhatFitsIsNotAskedAbout) {
  EXPECT_EQ(advice(680), "");
  EXPECT_EQ(advice(680, 4), "");
}

TEST(MemoryFit, TheSmallestChangeIsNamed) {
  EXPECT_THAT(advice(679), AllOf(HasSubstr("plans 680.00 MiB (713031680 bytes)"),
                                 HasSubstr("set train.micro_batch=6, which plans 440.00 MiB"),
                                 HasSubstr("the machine has")));
  // The largest divisor that fits, not the first.
  EXPECT_THAT(advice(330), HasSubstr("set train.micro_batch=3, which"));
  EXPECT_THAT(advice(239), HasSubstr("set memory.recompute=full and train.micro_batch=3, which"));
  EXPECT_THAT(advice(140), AllOf(HasSubstr("checkpoint.async=false and train.micro_batch=1"),
                                 Not(HasSubstr("recompute"))));
  EXPECT_THAT(advice(110),
              HasSubstr("checkpoint.async=false and memory.recompute=full and train.micro"));
  EXPECT_THAT(advice(106), HasSubstr("precision.compute=bf16 (which changes the result)"));
  EXPECT_THAT(advice(100), AllOf(HasSubstr("even with"), HasSubstr("smaller model")));
}

TEST(MemoryFit, TheFirstRankOfANameJudgesForAllOfIt) {
  const std::vector<std::string> names = {"a/x", "a/y", "a/x", "b", "a/y"};
  EXPECT_EQ(judged_by(0, names), (std::vector<int>{0, 2}));
  EXPECT_EQ(judged_by(1, names), (std::vector<int>{1, 4}));
  EXPECT_EQ(judged_by(2, names), std::vector<int>());
  EXPECT_EQ(judged_by(3, names), std::vector<int>{3});
  EXPECT_EQ(judged_by(4, names), std::vector<int>());
}

}  // namespace
}  // namespace megalith::account
