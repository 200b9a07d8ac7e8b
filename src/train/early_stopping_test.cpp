// SPDX-License-Identifier: Apache-2.0
// Runs that end because validation gets no better, and what is kept of the step where it was best.
#include <gmock/gmock.h>

#include <csignal>

#include "train/loop_fixture.h"

namespace megalith::train {
namespace {

using ::testing::ElementsAre;

/// Nothing is learned; the loss of a validation is what the test makes of the weights.
class EarlyStoppingTest : public LoopTest {
 protected:
  EarlyStoppingTest() {
    recipe_.optimizer.lr = recipe_.optimizer.min_lr = 0;
    recipe_.data.validation = recipe_.data.train;
    recipe_.train.steps = 40;
    recipe_.train.validate_every = 2;
    recipe_.train.validate_samples = 2;
    recipe_.train.early_stopping = 3;
    recipe_.checkpoint.every = 0;
  }
  /// From step `step` on the logits are `factor` times as large: guesses of a model that knows
  /// nothing become worse the surer it is.
  static Hooks surer_from(int64_t step, float factor) {
    Hooks hooks;
    hooks.before_step = [=](engine::Engine& engine, int64_t at) {
      if (at != step) return;
      const View weights = engine.parameters().find("final_norm.weight")->master();
      auto* values = reinterpret_cast<float*>(weights.data());
      for (int64_t i = 0; i < weights.num_elements(); ++i) values[i] *= factor;
    };
    return hooks;
  }
  nlohmann::json record() const { return nlohmann::json::parse(read_file(out() / "run.json")); }
};

TEST_F(EarlyStoppingTest, ARunWithoutPatienceLeftIsFinished) {
  EXPECT_EQ(run().status, "finished");
  // The first is the lowest, and three come no lower.
  EXPECT_EQ(report::last_metrics(out() / "metrics.jsonl")->step, 8);
  EXPECT_THAT(saved(), ElementsAre("step-00000008"));
  EXPECT_EQ(record()["best"]["step"], 2);
  EXPECT_FALSE(record()["best"].contains("checkpoint"));
  ASSERT_TRUE(finished().has_value());
  EXPECT_EQ(finished()->step, 8);
  recipe_.train.early_stopping = 5;
  EXPECT_FALSE(finished().has_value());
  EXPECT_EQ(run().last.step, 12);
}

TEST_F(EarlyStoppingTest, AResumeHasThePatienceOfTheWholeRun) {
  Hooks hooks;
  hooks.after_step = [](engine::Engine&, int64_t step, double) {
    if (step == 5) std::raise(SIGTERM);
  };
  EXPECT_EQ(run(hooks).status, "stopped");
  EXPECT_FALSE(finished().has_value());
  EXPECT_EQ(run().last.step, 8);
  const auto stopped = lines_of(out() / "metrics.jsonl");
  recipe_.run.out = (folder_ / "whole").string();
  run();
  EXPECT_EQ(lines_of(folder_ / "whole" / "metrics.jsonl"), stopped);
}

TEST_F(EarlyStoppingTest, ByAnotherNumberNothingIsTheBestYet) {
  run();
  recipe_.train.best_by = config::BestBy::accuracy;
  EXPECT_FALSE(finished().has_value());
  const auto fault = [&](const char* expected) {
    EXPECT_THAT([&] { run(); },
                ::testing::ThrowsMessage<UserError>(::testing::HasSubstr(expected)));
  };
  fault("train.best_by was loss, is accuracy");
  facts_.allow = {"train.best_by"};
  fault("validations give no accuracy");  // of a language model; the run did go on
}

TEST_F(EarlyStoppingTest, TheBestStepIsSavedAndStays) {
  recipe_.checkpoint.every = 5;
  recipe_.checkpoint.keep = 1;
  recipe_.checkpoint.keep_best = true;
  const Hooks worse = surer_from(1, 40);
  EXPECT_EQ(run(worse).status, "finished");
  EXPECT_THAT(saved(), ElementsAre("step-00000002", "step-00000008"));
  EXPECT_EQ(record()["best"]["checkpoint"], "checkpoints/step-00000002");
  ASSERT_TRUE(finished().has_value());
  // A lower one takes its place.
  recipe_.train.steps = 12;
  recipe_.train.early_stopping = 0;
  EXPECT_EQ(run(surer_from(9, 1.0F / 40)).status, "finished");
  EXPECT_THAT(saved(), ElementsAre("step-00000010", "step-00000012"));
  // Who no longer asks for it keeps no more than the newest.
  recipe_.checkpoint.keep_best = false;
  EXPECT_FALSE(finished().has_value());
  run();
  EXPECT_THAT(saved(), ElementsAre("step-00000012"));
}

}  // namespace
}  // namespace megalith::train
