// SPDX-License-Identifier: Apache-2.0
// What a run needs of the weights that it begins with is made of them, not of those that it goes on
// with, and as often as it is not kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "train/loop_fixture.h"

namespace megalith::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class FirstWeights : public LoopTest {
 protected:
  FirstWeights() {
    initial_weights_ = [](engine::Engine& engine) { engine.initialise(); };
    of_first_weights_ = {[this](comm::Communicator&) { return kept_; },
                         [this](engine::Engine& engine, FunctionRef<bool()> stop) {
                           if (stop()) return false;
                           const parameters::Parameter* const norm =
                               engine.parameters().find("final_norm.weight");
                           made_of_.push_back(*norm->master().as<float>());
                           if (stops_) std::raise(SIGTERM);
                           if (stop()) return false;
                           return kept_ = true;
                         }};
  }
  std::string state() const {
    return nlohmann::json::parse(read_file(out() / "run.json"))
        .at("state_sha256")
        .get<std::string>();
  }
  bool kept_ = false, stops_ = false;
  std::vector<float> made_of_;  // an element of the weights, each time
};

TEST_F(FirstWeights, AreThoseThatTheRunBeganWith) {
  run();
  const std::string whole = state();
  EXPECT_THAT(made_of_, ElementsAre(1));  // of a norm before its first step
  fs::remove_all(out());
  kept_ = false;
  recipe_.train.steps = 2;
  run();
  EXPECT_THAT(made_of_, SizeIs(2));
  recipe_.train.steps = 3;
  run();  // it is kept
  EXPECT_THAT(made_of_, SizeIs(2));
  kept_ = false;
  recipe_.train.steps = 4;
  run();
  EXPECT_THAT(made_of_, SizeIs(3));
  EXPECT_THAT(made_of_, Each(1));
  EXPECT_EQ(state(), whole);
}

TEST_F(FirstWeights, ASignalEndsTheRunBeforeItsFirstStep) {
  run();
  const std::string whole = state();
  fs::remove_all(out());
  kept_ = false;
  stops_ = true;
  EXPECT_EQ(run().status, "stopped");
  EXPECT_FALSE(kept_);
  EXPECT_FALSE(report::last_metrics(out() / "metrics.jsonl").has_value());
  stops_ = false;
  EXPECT_EQ(run().status, "finished");
  EXPECT_THAT(made_of_, ElementsAre(1, 1, 1));
  EXPECT_EQ(state(), whole);
}

}  // namespace
}  // namespace megalith::train
