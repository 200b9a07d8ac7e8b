// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace megalith::optim {
namespace {

Schedule make(ScheduleKind kind) {
  Schedule s;
  s.kind = kind;
  s.peak = 1.0;
  s.floor = 0.1;
  s.warmup_steps = 10;
  s.total_steps = 110;
  s.decay_steps = kind == ScheduleKind::wsd ? 20 : 0;
  s.budget_seconds = 3600;
  return s;
}
double at(ScheduleKind kind, int64_t step, double elapsed = 0) {
  return learning_rate(make(kind), {step, elapsed});
}

TEST(Schedule, WarmUpIsLinearAndReachesThePeakOnItsLastStep) {
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine,
                          ScheduleKind::inverse_sqrt, ScheduleKind::wsd, ScheduleKind::hours}) {
    EXPECT_DOUBLE_EQ(at(kind, 1), 0.1);
    EXPECT_DOUBLE_EQ(at(kind, 5), 0.5);
    EXPECT_DOUBLE_EQ(at(kind, 10), 1.0);
  }
}

// Steps {middle, last, last + 1}; hand-computed.
TEST(Schedule, TableOfTheOtherPhases) {
  EXPECT_DOUBLE_EQ(at(ScheduleKind::constant, 111), 1.0);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::linear, 60), 0.55);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::linear, 110), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::linear, 111), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::cosine, 60), 0.55);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::cosine, 110), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::cosine, 1000), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::inverse_sqrt, 40), 0.5);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::inverse_sqrt, 100'000), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::wsd, 90), 1.0);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::wsd, 100), 0.55);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::wsd, 110), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::wsd, 200), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::hours, 50, 1800), 0.55);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::hours, 50, 3600), 0.1);
  EXPECT_DOUBLE_EQ(at(ScheduleKind::hours, 50, 7200), 0.1);
}

TEST(Schedule, DecayMayEndBeforeTheRun) {
  for (const auto kind : {ScheduleKind::linear, ScheduleKind::cosine}) {
    Schedule s = make(kind);
    s.decay_steps = 40;
    EXPECT_DOUBLE_EQ(learning_rate(s, {30, 0}), 0.55);
    EXPECT_DOUBLE_EQ(learning_rate(s, {50, 0}), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(s, {110, 0}), 0.1);
  }
}

TEST(Schedule, WithoutWarmUpTheFirstStepDecaysByOnePart) {
  Schedule s = make(ScheduleKind::linear);
  s.warmup_steps = 0;
  s.total_steps = 10;
  s.floor = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, {1, 0}), 0.9);
  EXPECT_DOUBLE_EQ(learning_rate(s, {10, 0}), 0.0);
}

TEST(BatchRamp, GrowsInEqualPartsOfTheSamples) {
  const BatchRamp ramp{32, 8, 8, 300};  // 3 raises, one per 100 samples
  EXPECT_EQ(batch_size(ramp, 0), 8);
  EXPECT_EQ(batch_size(ramp, 99), 8);
  EXPECT_EQ(batch_size(ramp, 100), 16);
  EXPECT_EQ(batch_size(ramp, 200), 24);
  EXPECT_EQ(batch_size(ramp, 300), 32);
  EXPECT_EQ(batch_size(ramp, 301), 32);
  EXPECT_EQ(batch_size(BatchRamp{32, 0, 0, 0}, 0), 32);
}

TEST(BatchRamp, SamplesAfterEqualsSteppingThere) {
  const BatchRamp ramp{32, 8, 8, 300};
  int64_t consumed = 0;
  for (int64_t step = 0; step < 60; ++step) {
    EXPECT_EQ(samples_after(ramp, step), consumed);
    consumed += batch_size(ramp, consumed);
  }
}

}  // namespace
}  // namespace megalith::optim
