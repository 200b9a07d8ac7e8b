// SPDX-License-Identifier: Apache-2.0
// Whole small runs of an objective that draws its questions: stopped and resumed ones end with the
// bits of one that was not, and every validation asks the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/file.h"
#include "comm/backends.h"
#include "data/test_corpus.h"
#include "engine/from_recipe.h"
#include "objectives/tokenizer_fixture.h"
#include "report/metrics.h"
#include "train/loop.h"
#include "train/run_inputs.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

/// Lines of metrics without what a clock says.
std::vector<std::string> results_of(const fs::path& run) {
  std::vector<std::string> lines;
  std::istringstream text(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    auto json = nlohmann::json::parse(line);
    for (const char* timed : {"step_seconds", "tokens_per_second", "mfu", "memory_bytes"})
      json.erase(timed);
    lines.push_back(json.dump());
  }
  return lines;
}

std::string state_of(const fs::path& run) {
  return nlohmann::json::parse(read_file(run / "run.json")).at("state_sha256");
}

class MaskedRunTest : public ::testing::Test {
 protected:
  MaskedRunTest() : tokenizer_(objectives::objectives_tokenizer()) {
    data::write_corpus(folder_ / "corpus", {data::counting(1, 90),
                                            data::counting(5, 70),
                                            {1, 2, objectives::kEnd},
                                            data::counting(9, 50)});
    recipe_.run.out = (folder_ / "run").string();
    recipe_.run.threads = 1;
    recipe_.model.layers = 1;
    recipe_.model.hidden = 16;
    recipe_.model.heads = 2;
    recipe_.model.context = 8;
    recipe_.model.vocab = objectives::kVocabulary;
    recipe_.data.train = {{(folder_ / "corpus").string(), {}}};
    recipe_.data.validation = recipe_.data.train;
    recipe_.train.steps = 20;  // more than an epoch
    recipe_.train.global_batch = 2;
    recipe_.train.validate_every = 3;
    recipe_.optimizer.schedule = config::Schedule::constant;
    recipe_.checkpoint.every = 4;
    config::resolve(recipe_);
    settings_ = engine::settings_of(recipe_, 0);
    settings_.model.for_each_layer(
        [](layers::LayerSpec& layer) { layer.attention.causal = false; });
    recipe_.train.objective = config::Objective::masked;
  }

  /// A signal comes in step `stop_at`, if there is one.
  RunResult run(const std::string& out, int64_t stop_at = 0) {
    const StopRequest stop;
    recipe_.run.out = (folder_ / out).string();
    const auto training = training_source(recipe_, settings_, &tokenizer_);
    const auto validation = validation_source(recipe_, settings_, &tokenizer_);
    Hooks hooks;
    hooks.after_step = [=](engine::Engine&, int64_t step, double) {
      if (step == stop_at) std::raise(SIGTERM);
    };
    return run_training({.recipe = recipe_,
                         .settings = settings_,
                         .tokenizer = &tokenizer_,
                         .training = *training,
                         .validation = validation.get(),
                         .initial_weights = initial_weights_,
                         .hooks = hooks,
                         .stop = &stop},
                        *world_, *device_);
  }

  const data::TemporaryFolder folder_;
  const text::Tokenizer tokenizer_;
  config::Recipe recipe_;
  engine::Settings settings_;
  std::function<void(engine::Engine&)> initial_weights_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> world_ = comm::make_self_communicator(*device_);
};

TEST_F(MaskedRunTest, ARunThatWasStoppedEndsWithTheBitsOfOneThatWasNot) {
  EXPECT_EQ(run("whole").status, "finished");
  EXPECT_EQ(run("stopped", 7).status, "stopped");
  EXPECT_EQ(run("stopped", 11).status, "stopped");
  EXPECT_EQ(run("stopped").status, "finished");
  EXPECT_EQ(results_of(folder_ / "stopped"), results_of(folder_ / "whole"));
  EXPECT_EQ(results_of(folder_ / "whole").size(), 20u);
  EXPECT_EQ(state_of(folder_ / "stopped"), state_of(folder_ / "whole"));
}

TEST_F(MaskedRunTest, EveryValidationOfEveryRunHidesTheSame) {
  settings_.schedule.peak = recipe_.optimizer.lr = 0;  // the weights stay
  settings_.adamw.weight_decay = 0;
  initial_weights_ = [](engine::Engine& engine) {
    engine.parameters().initialise(engine.device(), 77);
  };
  run("a");
  settings_.seed = static_cast<uint64_t>(recipe_.run.seed = 4321);
  run("b");
  std::vector<double> losses;
  for (const char* name : {"a", "b"}) {
    for (const std::string& line : results_of(folder_ / name)) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("validation_loss")) losses.push_back(json["validation_loss"]);
    }
  }
  ASSERT_EQ(losses.size(), 14u);
  for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
}

TEST_F(MaskedRunTest, AnotherRateOrObjectiveIsNoResume) {
  recipe_.train.steps = 4;
  run("run");
  recipe_.train.steps = 6;
  recipe_.train.masking.rate = 0.2;
  EXPECT_THAT([&] { run("run"); }, ::testing::ThrowsMessage<UserError>(
                                       ::testing::HasSubstr("train.masking.rate was 0.15")));
}

class MiddleRunTest : public MaskedRunTest {
 protected:
  MiddleRunTest() {
    recipe_.train.objective = config::Objective::causal;
    recipe_.train.fim.rate = 0.5;
    settings_.model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.causal = true; });
  }
};

TEST_F(MiddleRunTest, ARunThatWasStoppedEndsWithTheBitsOfOneThatWasNot) {
  EXPECT_EQ(run("whole").status, "finished");
  EXPECT_EQ(run("stopped", 7).status, "stopped");
  EXPECT_EQ(run("stopped").status, "finished");
  EXPECT_EQ(results_of(folder_ / "stopped"), results_of(folder_ / "whole"));
  EXPECT_EQ(state_of(folder_ / "stopped"), state_of(folder_ / "whole"));
  recipe_.train.fim.rate = 0;
  EXPECT_EQ(run("plain").status, "finished");
  EXPECT_NE(results_of(folder_ / "plain"), results_of(folder_ / "whole"));
}

TEST_F(MaskedRunTest, ATokenizerIsNeeded) {
  EXPECT_THAT([&] { training_source(recipe_, settings_, nullptr); },
              ::testing::ThrowsMessage<UserError>(::testing::HasSubstr("need data.tokenizer")));
}

}  // namespace
}  // namespace megalith::train
