// SPDX-License-Identifier: Apache-2.0
// Every second of a run is in one bucket, over any number of starts.
#include "train/goodput.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/test_corpus.h"

namespace megalith::train {
namespace {

double sum(const Goodput& accounts) {
  double total = 0;
  for (int i = 0; i < kNumBuckets; ++i) total += accounts.seconds(static_cast<Bucket>(i));
  return total;
}

TEST(Goodput, EverySecondIsInTheBucketThatRan) {
  Goodput accounts({100, 5000, 2});  // the process began two seconds ago
  accounts.enter(Bucket::steps, 103);
  EXPECT_EQ(accounts.enter(Bucket::data_wait, 110), Bucket::steps);
  accounts.enter(Bucket::steps, 111);
  const auto json = accounts.to_json(4, 121);
  EXPECT_EQ(accounts.seconds(Bucket::start), 5);
  EXPECT_EQ(accounts.seconds(Bucket::steps), 17);
  EXPECT_EQ(accounts.seconds(Bucket::data_wait), 1);
  EXPECT_EQ(json["since"], 4998);
  EXPECT_EQ(json["until"], 5021);
  EXPECT_EQ(json["wall_seconds"], sum(accounts));
  EXPECT_EQ(json["useful"], 17.0 / 23.0);
  EXPECT_EQ(json["buckets"]["steps"], 17);
}

TEST(Goodput, StepsDoneAgainAndTimeWithoutAProcessAreNamed) {
  Goodput first({0, 1000, 0});
  first.enter(Bucket::steps, 1);
  nlohmann::ordered_json run;
  run["accounts"] = first.to_json(10, 11);  // ten seconds of steps
  EXPECT_EQ(Goodput::recorded_step(run), 10);
  // Killed; begun again 20 s later from a checkpoint before the record: 3 s of recorded steps and
  // 4 s after the record are to be done again.
  Goodput second({500, 1031, 0});
  second.resume(run, 3, 4);
  const auto json = second.to_json(7, 502);
  EXPECT_EQ(second.seconds(Bucket::steps), 7);
  EXPECT_EQ(second.seconds(Bucket::lost_steps), 7);
  EXPECT_EQ(second.seconds(Bucket::idle), 16);
  EXPECT_EQ(second.seconds(Bucket::start), 3);
  EXPECT_EQ(json["wall_seconds"], 33);
  EXPECT_EQ(sum(second), 33);
}

TEST(Goodput, ClocksThatJumpDoNoHarm) {
  for (const double jump : {-86400.0, 86400.0}) {
    Goodput first({0, 1e6, 0});
    first.enter(Bucket::steps, 1);
    nlohmann::ordered_json run;
    run["accounts"] = first.to_json(10, 11);
    Goodput second({20, 1e6 + 20 + jump, 0});
    second.resume(run, 0, 0);
    const double wall = second.to_json(10, 30)["wall_seconds"];
    EXPECT_NEAR(sum(second), wall, 1e-6) << jump;
    EXPECT_GE(second.seconds(Bucket::idle), 0);
  }
}

TEST(Goodput, WhatCannotBeReadBeginsAnew) {
  for (const char* text : {"{}", R"({"accounts": 3})", R"({"accounts": {"step": "x"}})",
                           R"({"accounts": {"step": 3}})",
                           R"({"accounts": {"step": 3, "buckets": [], "since": 1, "until": 2}})",
                           R"({"accounts": {"step": 3, "buckets": {}, "since": 1, "until": -2}})",
                           R"({"accounts": {"step": 3, "buckets": {"idle": 1e300}, "since": 1,
                               "until": 2}})",
                           R"({"accounts": {"step": 3, "buckets": {"steps": -9}, "since": 1,
                               "until": 2}})"}) {
    Goodput accounts({0, 1000, 0});
    accounts.resume(nlohmann::ordered_json::parse(text), 1, 1);
    accounts.to_json(0, 2);
    EXPECT_EQ(sum(accounts), 2) << text;
  }
}

/// Steps 1 to 4 of as many seconds each, and `rest`.
void with_lines(const data::TemporaryFolder& folder, const std::string& rest) {
  std::string lines;
  for (int step = 1; step <= 4; ++step) {
    report::StepMetrics line;
    line.step = step;
    line.step_seconds = step;
    lines += line.to_json_line();
  }
  data::write_text(folder / "metrics.jsonl", lines + rest);
}

TEST(LoggedSteps, OnePassKnowsTheLastLineAndWhatIsLost) {
  const data::TemporaryFolder folder;
  EXPECT_FALSE(logged_steps(folder.path(), 0, 0, -1).last.has_value());
  with_lines(folder, "");
  LoggedSteps logged = logged_steps(folder.path(), 2, 2, 3);
  EXPECT_EQ(logged.last->step, 2);
  EXPECT_EQ(logged.recorded_seconds, 3);
  EXPECT_EQ(logged.later_seconds, 4);
  logged = logged_steps(folder.path(), 3, 2, -1);  // owes its line: not lost, not kept
  EXPECT_EQ(logged.last->step, 2);
  EXPECT_EQ(logged.recorded_seconds, 0);
  EXPECT_EQ(logged.later_seconds, 4);
  EXPECT_FALSE(logged_steps(folder.path(), 0, 0, INT64_MAX).last.has_value());
}

TEST(LoggedSteps, WhatIsReadBeforeDamageCounts) {
  const data::TemporaryFolder folder;
  with_lines(folder, "not a line\n");
  const LoggedSteps logged = logged_steps(folder.path(), 2, 2, INT64_MAX);
  EXPECT_EQ(logged.last->step, 2);
  EXPECT_EQ(logged.recorded_seconds, 7);
  EXPECT_EQ(logged_steps(folder.path(), 4, 4, INT64_MAX).last->step, 4);
  // But not where lines are missing that the checkpoint keeps.
  EXPECT_THROW(logged_steps(folder.path(), 5, 5, INT64_MAX), IntegrityError);
}

}  // namespace
}  // namespace megalith::train
