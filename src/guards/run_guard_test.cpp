// SPDX-License-Identifier: Apache-2.0
// A guard sees what it should, counts, stops in time, and goes on after a resume as if nothing had
// been.
#include "guards/run_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::guards {
namespace {

using ::testing::HasSubstr;

config::TrainSection section(config::Spike spike, int64_t limit = 2) {
  config::TrainSection train;
  train.spike = spike;
  train.spike_window = 8;
  train.spike_factor = 5;
  train.spike_limit = limit;
  train.not_finite_limit = limit;
  return train;
}

std::string stops(const std::function<void()>& act) {
  try {
    act();
  } catch (const DoNotRestartError& error) {
    return error.what();
  }
  return "";
}

TEST(SpikeGuard, JudgesByMedianAndDeviation) {
  SpikeGuard guard({5, 8});
  // 1, 2, ..., 8: lower median 4, deviations 3 2 1 0 1 2 3 4, of which the lower median is 2.
  for (int i = 1; i <= 8; ++i) EXPECT_FALSE(guard.observe(i).has_value()) << i;
  const double threshold = 4 + 5 * 1.4826 * 2;
  EXPECT_FALSE(SpikeGuard(guard).observe(threshold).has_value());
  const auto spike = SpikeGuard(guard).observe(threshold + 1e-9);
  ASSERT_TRUE(spike.has_value());
  EXPECT_EQ(spike->median, 4);
  EXPECT_EQ(spike->threshold, threshold);
}

TEST(SpikeGuard, SaysNothingBeforeHalfAWindow) {
  SpikeGuard guard({5, 8});
  for (const double loss : {1.0, 1.0, 100.0, 1.0}) EXPECT_FALSE(guard.observe(loss).has_value());
  EXPECT_TRUE(guard.observe(100).has_value());
}

TEST(SpikeGuard, RemembersNoMoreThanAWindow) {
  SpikeGuard guard({5, 8});
  for (int i = 0; i < 1000; ++i) guard.observe(1 + 0.1 * (i % 7));
  EXPECT_EQ(guard.to_json().size(), 8u);
  // A checkpoint of a run with a longer window.
  nlohmann::json longer = nlohmann::json::array();
  for (int i = 0; i < 100; ++i) longer.push_back("0x1p+0");
  guard.restore(longer);
  guard.observe(1);
  EXPECT_EQ(guard.to_json().size(), 8u);
}

TEST(SpikeGuard, GoesOnFromItsState) {
  SpikeGuard whole({5, 8});
  for (int i = 0; i < 20; ++i) whole.observe(1 + 0.1 * (i % 7));
  SpikeGuard resumed({5, 8});
  resumed.restore(nlohmann::json::parse(whole.to_json().dump()));
  int spikes = 0;
  for (const double loss : {30.0, 1.0, 1.1, 50.0, 1.2, 80.0}) {  // one at once
    const auto a = whole.observe(loss), b = resumed.observe(loss);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    ++spikes;
    EXPECT_EQ(a->threshold, b->threshold);
  }
  EXPECT_GE(spikes, 2);
  EXPECT_THROW(resumed.restore({"nan"}), IntegrityError);
  EXPECT_THROW(resumed.restore({1.5}), IntegrityError);
  EXPECT_THROW(resumed.restore("x"), IntegrityError);
}

TEST(RunGuard, StopsAtAStepThatIsNotFiniteOrSkipsSoMany) {
  config::TrainSection train = section(config::Spike::ignore, 2);
  RunGuard strict(train);
  EXPECT_THAT(stops([&] { strict.not_finite(3, "weight x"); }), HasSubstr("first: weight x"));
  train.not_finite = config::NotFinite::skip;
  RunGuard lenient(train);
  EXPECT_EQ(stops([&] { lenient.not_finite(3, "a"); }), "");
  RunGuard resumed(train);
  resumed.restore(nlohmann::json::parse(lenient.to_json().dump()));
  EXPECT_EQ(resumed.skipped_steps(), 1);
  EXPECT_EQ(stops([&] { resumed.not_finite(4, "b"); }), "");
  EXPECT_EQ(resumed.skipped_steps(), 2);
  EXPECT_THAT(stops([&] { resumed.not_finite(5, "c"); }), HasSubstr("2 steps were skipped"));
}

TEST(RunGuard, OverflowsAreCountedApartAndHaveNoLimit) {
  RunGuard guard(section(config::Spike::ignore, 0));
  for (int64_t step = 1; step <= 3; ++step) guard.overflowed(step, 8, 4);
  EXPECT_EQ(guard.overflowed_steps(), 3);
  EXPECT_EQ(guard.skipped_steps(), 3);
  RunGuard resumed(section(config::Spike::ignore, 0));
  const nlohmann::json state = nlohmann::json::parse(guard.to_json().dump());
  resumed.restore(state);
  EXPECT_EQ(resumed.overflowed_steps(), 3);
  EXPECT_EQ(resumed.to_json(), state);
  nlohmann::json older = state;  // of a run that could not overflow
  older.erase("overflowed_steps");
  resumed.restore(older);
  EXPECT_EQ(resumed.overflowed_steps(), 0);
}

TEST(RunGuard, RewindsSoOftenAndWarnsWithoutEnd) {
  const auto spike = [](RunGuard& guard) {
    for (int i = 0; i < 8; ++i) guard.observe(i, 1);
    return guard.observe(9, 100);
  };
  RunGuard ignore(section(config::Spike::ignore)), warn(section(config::Spike::warn));
  EXPECT_FALSE(spike(ignore).has_value());
  EXPECT_FALSE(spike(warn).has_value());
  RunGuard guard(section(config::Spike::rewind, 1));
  const nlohmann::json before = guard.to_json();
  EXPECT_TRUE(spike(guard).has_value());
  guard.restore(before);
  guard.rewound(guard.rewinds(), 24);
  EXPECT_EQ(guard.to_json().at("skipped_samples"), 24);
  EXPECT_THAT(stops([&] { spike(guard); }), HasSubstr("rewound 1 times"));
}

TEST(RunGuard, ADamagedStateIsRefused) {
  RunGuard guard(section(config::Spike::warn));
  EXPECT_THROW(guard.restore(nlohmann::json::object()), IntegrityError);
  EXPECT_THROW(guard.restore({{"skipped_steps", "x"}}), IntegrityError);
}

}  // namespace
}  // namespace megalith::guards
