// SPDX-License-Identifier: Apache-2.0
// Runs that end because validation gets no better, and what is kept of the step where it was best.
#include <gmock/gmock.h>

#include <csignal>

#include "checkpoint/step_folders.h"
#include "train/loop_fixture.h"
#include "train/run_checkpoints.h"

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
  /// The next validation's f1 is the next of `scores_`, or the last.
  RunResult run(const Hooks& hooks = {}) {
    spans_ = {};
    if (!scores_.empty()) {
      spans_.scores = [&, next = size_t{0}](int64_t, std::span<const double>) mutable {
        const double score = scores_[std::min(next++, scores_.size() - 1)];
        return metrics::Scores{{"f1", score}};
      };
    }
    return LoopTest::run(hooks);
  }
  /// The step of the kept checkpoint that is the best by that number.
  std::optional<int64_t> best_step(config::BestBy by) const {
    const auto best = best_kept(*checkpoint::find_newest(checkpoints(), false), by);
    return best ? std::optional(best->step()) : std::nullopt;
  }
  nlohmann::json record() const { return nlohmann::json::parse(read_file(out() / "run.json")); }
  std::vector<double> scores_;
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

/// What was kept by the old number is not the best by the new one, for nobody.
TEST_F(EarlyStoppingTest, AnotherNumberThatIsAllowedHasABestOfItsOwn) {
  recipe_.train.early_stopping = 0;
  recipe_.train.steps = 8;
  recipe_.checkpoint.keep = 1;
  recipe_.checkpoint.keep_best = true;
  run(surer_from(3, 40));
  EXPECT_THAT(saved(), ElementsAre("step-00000002", "step-00000008"));
  EXPECT_EQ(best_step(config::BestBy::loss), 2);
  EXPECT_EQ(best_step(config::BestBy::f1), std::nullopt);
  recipe_.train.best_by = config::BestBy::f1;
  facts_.allow = {"train.best_by"};
  run();  // nothing is left to do
  EXPECT_FALSE(record().contains("best"));
  recipe_.train.steps = 14;
  scores_ = {0.25, 0.75, 0.5};
  EXPECT_EQ(run().status, "finished");
  EXPECT_THAT(saved(), ElementsAre("step-00000012", "step-00000014"));
  EXPECT_EQ(best_step(config::BestBy::f1), 12);
  EXPECT_EQ(best_step(config::BestBy::loss), std::nullopt);
  EXPECT_EQ(record()["best"].dump(),
            R"({"checkpoint":"checkpoints/step-00000012","f1":0.75,"step":12})");
}

/// The line of its step waits for it, and is the same with all that it says.
TEST_F(EarlyStoppingTest, AValidationThatASignalStoppedIsTheNextStartsFirst) {
  recipe_.train.steps = 8;
  scores_ = {0.25};
  EXPECT_EQ(run().status, "finished");
  const auto whole = lines_of(out() / "metrics.jsonl");
  ASSERT_EQ(whole.size(), 8u);
  EXPECT_EQ(whole[3]["validation_scores"]["f1"], 0.25);
  recipe_.run.out = (folder_ / "stopped").string();
  const fs::path log = folder_ / "stopped" / "metrics.jsonl";
  Hooks hooks;
  hooks.after_step = [](engine::Engine&, int64_t step, double) {
    if (step == 4) std::raise(SIGTERM);
  };
  EXPECT_EQ(run(hooks).status, "stopped");
  EXPECT_EQ(lines_of(log).size(), 3u);
  EXPECT_EQ(run().status, "finished");
  EXPECT_EQ(lines_of(log), whole);
}

/// Such a run learned nothing that can be told, and says so.
TEST_F(EarlyStoppingTest, ScoresThatAreNoNumbersEndTheRunWithAWord) {
  recipe_.train.best_by = config::BestBy::f1;
  recipe_.checkpoint.keep_best = true;
  scores_ = {metrics::kNoScore};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run().last.step, 6);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::HasSubstr("step 6: 3 validations in a row came no higher"));
  EXPECT_THAT(said, ::testing::HasSubstr("no validation has a number as its f1"));
  EXPECT_THAT(saved(), ElementsAre("step-00000006"));
  EXPECT_FALSE(record().contains("best"));
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
