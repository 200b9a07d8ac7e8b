// SPDX-License-Identifier: Apache-2.0
// Small whole runs: what ends one when several things happen at once, what a finished one is taken
// for, and what is left of its checkpoints.
#include "train/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "train/loop_fixture.h"
#include "train/run_checkpoints.h"

namespace megalith::train {
namespace {

using ::testing::ElementsAre;

TEST_F(LoopTest, AStepThatIsNotFiniteIsNotSavedForASignal) {
  const auto stop_at_3 = [](int64_t step) {
    if (step == 3) std::raise(SIGTERM);
  };
  EXPECT_THROW(run(not_finite_at(3, stop_at_3)), DoNotRestartError);
  EXPECT_THAT(saved(), ElementsAre("step-00000001", "step-00000002"));
  EXPECT_EQ(report::last_metrics(out() / "metrics.jsonl")->step, 3);
  // A sound one is.
  EXPECT_EQ(run(not_finite_at(0, stop_at_3)).status, "stopped");
  EXPECT_THAT(saved(), ElementsAre("step-00000001", "step-00000002", "step-00000003"));
}

// Not only in the next one that is saved.
TEST_F(LoopTest, WhatAnUpdateLeftNotFiniteEndsTheRunInItsStep) {
  recipe_.train.steps = 8;
  recipe_.checkpoint.every = 2;
  Hooks hooks;
  hooks.before_step = [](engine::Engine& engine, int64_t step) {
    if (step != 3) return;
    const View moments = engine.optimizer().states(1)[1];
    *reinterpret_cast<float*>(moments.data()) = std::numeric_limits<float>::infinity();
  };
  EXPECT_THAT([&] { run(hooks); }, ::testing::ThrowsMessage<DoNotRestartError>(::testing::AllOf(
                                       ::testing::StartsWith("step 3: second moment of "),
                                       ::testing::HasSubstr("lower optimizer.lr"))));
  EXPECT_THAT(saved(), ElementsAre("step-00000002"));
  EXPECT_EQ(report::last_metrics(out() / "metrics.jsonl")->step, 3);
}

// Scores decide what ranks do together: what is kept, and when a run ends.
TEST_F(LoopTest, RanksThatWouldScoreAnswersOtherwiseDoNotBegin) {
  recipe_.parallel.data = recipe_.parallel.data_shards = 2;
  recipe_.train.micro_batch = 1;
  const engine::Settings settings = engine::settings_of(recipe_, 0);
  const auto source = training_source(recipe_, settings, nullptr);
  const auto begin = [&](const char* first, const char* second) {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      const auto scores = [](int64_t, std::span<const double>) { return metrics::Scores(); };
      run_training({.recipe = recipe_,
                    .settings = settings,
                    .tokenizer = nullptr,
                    .training = *source,
                    .validation = nullptr,
                    .spans = {.keep = {},
                              .scores = scores,
                              .fingerprint = world.rank() == 0 ? first : second}},
                   world, *device);
      world.set_device(nullptr);
    });
  };
  EXPECT_THAT([&] { begin("one", "another"); },
              ::testing::ThrowsMessage<std::exception>(
                  ::testing::HasSubstr("what answers are scored by differs between ranks")));
  EXPECT_TRUE(!fs::exists(checkpoints()) || saved().empty());
  begin("one", "one");
  EXPECT_EQ(report::last_metrics(out() / "metrics.jsonl")->step, 4);
}

TEST_F(LoopTest, AFailedSaveDoesNotHideThatARestartWouldFail) {
  recipe_.checkpoint.every = 2;
  const auto break_the_save_of_2 = [&](int64_t step) {
    if (step != 2) return;
    fs::rename(checkpoints(), out() / "away");
    put(checkpoints(), "in the way");
  };
  EXPECT_THROW(run(not_finite_at(3, break_the_save_of_2)), DoNotRestartError);
  EXPECT_TRUE(fs::is_regular_file(checkpoints()));
}

TEST_F(LoopTest, AFinishedRunWithoutItsRecordIsToWriteItAgain) {
  EXPECT_EQ(run().status, "finished");
  ASSERT_TRUE(finished().has_value());
  EXPECT_EQ(finished()->step, 4);
  const fs::path record = out() / "run.json";
  for (const char* left : {"", R"({"name": )", R"({"status": "running"})"}) {
    fs::remove(record);
    if (*left != '\0') put(record, left);
    EXPECT_FALSE(finished().has_value()) << left;
    EXPECT_EQ(run().status, "finished");
    const auto json = nlohmann::json::parse(read_file(record));
    EXPECT_EQ(json.at("status"), "finished") << left;
    EXPECT_TRUE(json.contains("recipe_fingerprint") && json.contains("state_sha256")) << left;
    EXPECT_TRUE(finished().has_value()) << left;
  }
}

TEST_F(LoopTest, WhatAStartWouldLeaveDoesNotMakeAFinishedRunUntidy) {
  run();
  fs::create_directory(out() / ".tmp-fedcba9876543210");
  data::write_text(out() / ".tmp-mine", "mine");
  rewrite_as_newer("step-00000002");
  recipe_.checkpoint.keep = 3;  // of this format
  EXPECT_TRUE(finished().has_value());
  recipe_.checkpoint.keep = 2;
  EXPECT_FALSE(finished().has_value());
  run();
  EXPECT_THAT(saved(), ElementsAre("step-00000002", "step-00000003", "step-00000004"));
  EXPECT_TRUE(finished().has_value());
  data::write_text(out() / ".tmp-0123456789abcdef", "half");
  EXPECT_FALSE(finished().has_value());
}

// What checkpoints recorded of their data before all of its bytes counted.
TEST_F(LoopTest, ACheckpointThatRecordedTheEndsOfItsCorpusIsGoneOnFrom) {
  run();
  const std::string ends = data::IndexedDataset(folder_ / "corpus").fingerprint_of_ends();
  const auto record = [&](const nlohmann::json& fingerprint) {
    const std::string newest = saved().back();
    rewrite(newest, [&](nlohmann::json& json) { json["state"]["data_fingerprint"] = fingerprint; });
    ++recipe_.train.steps;
  };
  record(ends);
  EXPECT_EQ(run().last.step, 5);
  EXPECT_NE(
      nlohmann::json::parse(read_file(checkpoints() / saved().back() /
                                      checkpoint::kManifestName))["state"]["data_fingerprint"],
      ends);
  for (const nlohmann::json& other :
       {nlohmann::json(std::string(32, '0')), nlohmann::json("all-"), nlohmann::json(7)}) {
    record(other);
    EXPECT_THROW(run(), UserError) << other;
  }
}

TEST_F(LoopTest, ARunThatGoesBackPassesOverNewerFormatsAndLeavesThem) {
  run();
  rewrite_as_newer("step-00000003");
  EXPECT_EQ(regular_checkpoint_before(checkpoints(), 4, 1), checkpoints() / "step-00000002");
  remove_checkpoints_after(checkpoints(), 1);
  EXPECT_THAT(saved(), ElementsAre("step-00000001", "step-00000003"));
}

TEST_F(LoopTest, GivenWeightsAreWhereARunBeginsAndAResumeDoesNotAskForThem) {
  int asked = 0;
  initial_weights_ = [&](engine::Engine& engine) {
    ++asked;
    engine.parameters().initialise(engine.device(), 77);
  };
  const RunResult given = run();
  EXPECT_EQ(asked, 1);
  recipe_.train.steps = 6;
  run();
  EXPECT_EQ(asked, 1);
  initial_weights_ = nullptr;
  recipe_.train.steps = 4;
  recipe_.run.out = (folder_ / "seeded").string();
  EXPECT_NE(run().last.loss, given.last.loss);
}

// Consent does not make saved tensors fit: of 100 rows, padded to a multiple of 128 and of the
// shards, three shards ask for 384.
TEST_F(LoopTest, ShardsThatPadTheVocabularyOtherwiseAreRefusedWhateverIsAllowed) {
  recipe_.model.hidden = 24;
  recipe_.model.heads = recipe_.model.kv_heads = 6;
  recipe_.model.ffn = 96;
  recipe_.parallel.tensor_shards = 1;
  run();
  facts_.allow = {"parallel.tensor_shards"};
  recipe_.train.steps = 6;
  recipe_.parallel.tensor_shards = 3;
  EXPECT_THAT([&] { run(); }, testing::ThrowsMessage<UserError>(testing::AllOf(
                                  testing::HasSubstr("parallel.tensor_shards was 1, is 3"),
                                  testing::HasSubstr("128 rows"), testing::HasSubstr("384"),
                                  testing::HasSubstr("use the old values or another run.out"))));
  recipe_.parallel.tensor_shards = 2;
  EXPECT_EQ(run().last.step, 6);
}

class Fp8LoopTest : public LoopTest {
 protected:
  Fp8LoopTest() {
    recipe_.model.layers = 2;
    recipe_.precision.compute = config::Compute::fp8;
    recipe_.precision.fp8.history = 2;
    recipe_.precision.fp8.guard.every = 2;
    recipe_.precision.fp8.guard.quiet = 5;
    recipe_.train.steps = 14;
    recipe_.checkpoint.keep = 20;
  }
  /// How many products ran in 16 bits behind each check.
  std::vector<double> wide() const {
    std::vector<double> numbers;
    for (const nlohmann::json& line : lines_of(out() / "metrics.jsonl"))
      if (line.contains("fp8_products_in_16_bits"))
        numbers.push_back(line["fp8_products_in_16_bits"].get<double>());
    return numbers;
  }
};

TEST_F(Fp8LoopTest, ChecksAreInTheLinesOfTheirSteps) {
  recipe_.precision.fp8.guard.every = 3;
  recipe_.precision.fp8.guard.patience = 100;  // nothing falls back
  run();
  for (const nlohmann::json& line : lines_of(out() / "metrics.jsonl")) {
    const bool is_due = line["step"].get<int64_t>() % 3 == 0;
    for (const char* key : {"fp8_loss_difference", "fp8_gradient_cosine", "fp8_saturated",
                            "fp8_flushed", "fp8_products_in_16_bits"})
      EXPECT_EQ(line.contains(key), is_due) << line.dump();
  }
  const auto plain = lines_of(out() / "metrics.jsonl");
  fs::remove_all(out());
  recipe_.precision.fp8.guard.every = 0;
  run();
  const auto unguarded = lines_of(out() / "metrics.jsonl");
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_EQ(plain[i]["loss_hex"], unguarded[i]["loss_hex"]) << i;
}

TEST_F(Fp8LoopTest, ProductsFallBackAndReturnAndAResumeDoesTheSame) {
  recipe_.precision.fp8.guard.trip = 1e-12;  // any difference
  recipe_.precision.fp8.guard.patience = 2;
  recipe_.precision.fp8.guard.fallback = config::Fp8Fallback::all;
  run();
  // Checks before steps 2, 4, ...: the second in a row that counts is that of 4, and 9 is the first
  // step in 8 bits again.
  EXPECT_THAT(wide(), ElementsAre(0, 8, 8, 8, 0, 8, 8));
  const auto whole = lines_of(out() / "metrics.jsonl");
  EXPECT_EQ(whole[5]["fp8_loss_difference"], 0.0);
  for (const int stop : {3, 5, 10}) {
    fs::remove_all(out());
    Hooks hooks;
    hooks.after_step = [&](engine::Engine&, int64_t step, double) {
      if (step == stop) std::raise(SIGTERM);
    };
    EXPECT_EQ(run(hooks).status, "stopped");
    EXPECT_EQ(run().status, "finished");
    EXPECT_EQ(lines_of(out() / "metrics.jsonl"), whole) << stop;
  }
}

TEST_F(Fp8LoopTest, TheWorstLayerAloneFallsBack) {
  recipe_.precision.fp8.guard.patience = 1;
  recipe_.precision.fp8.guard.trip = recipe_.precision.fp8.guard.warn = 10;
  recipe_.precision.fp8.guard.cosine = -1;
  Hooks hooks;
  hooks.before_step = [](engine::Engine& engine, int64_t step) {
    if (step != 6) return;  // a weight of the second layer has a scale that is far too large
    const precision::Scaling& scaling = engine.fp8()->scaling(precision::Operand::weight);
    scaling.scale().as<float>()[6] *= 1024;
    engine.fp8()->restored();
  };
  recipe_.precision.fp8.guard.saturated = 0.5;
  run(hooks);
  EXPECT_THAT(wide(), ElementsAre(0, 0, 4, 4, 4, 0, 0));
}

class F16LoopTest : public LoopTest {
 protected:
  F16LoopTest() {
    recipe_.model.layers = 2;
    recipe_.precision.parameters = config::Precision::f16;
    recipe_.precision.compute = config::Compute::f16;
    recipe_.precision.fp16.initial_scale = 0x1p24;
    recipe_.precision.fp16.growth_interval = 4;
    recipe_.train.steps = 20;
    recipe_.checkpoint.keep = 30;
  }
};

/// Their lines say so; a resume goes on with the scale, its counts and the optimizer's step.
TEST_F(F16LoopTest, StepsThatOverflowAreSkippedAndAResumeDoesTheSame) {
  EXPECT_EQ(run().status, "finished");
  const auto whole = lines_of(out() / "metrics.jsonl");
  ASSERT_EQ(whole.size(), 20u);
  double scale = 0x1p24, skipped = 0;
  bool grew = false;
  for (const nlohmann::json& line : whole) {
    grew = grew || line["loss_scale"] > scale;
    scale = line["loss_scale"].get<double>();
    const bool overflowed = line["grad_norm"].is_null();
    skipped += overflowed ? 1 : 0;
    EXPECT_EQ(line["overflowed_steps"], skipped) << line.dump();
    EXPECT_TRUE(line["loss"].is_number()) << line.dump();
  }
  EXPECT_GE(skipped, 2);
  EXPECT_TRUE(grew);
  for (const int stop : {1, 3, 11}) {
    fs::remove_all(out());
    Hooks hooks;
    hooks.after_step = [&](engine::Engine&, int64_t step, double) {
      if (step == stop) std::raise(SIGTERM);
    };
    EXPECT_EQ(run(hooks).status, "stopped");
    EXPECT_EQ(run().status, "finished");
    EXPECT_EQ(lines_of(out() / "metrics.jsonl"), whole) << stop;
  }
}

/// What no smaller scale can answer is a step that is not finite, as everywhere.
TEST_F(F16LoopTest, AnOverflowAtTheLeastOrAFixedScaleIsNotFinite) {
  const auto ends = [&] {
    try {
      run();
    } catch (const DoNotRestartError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  recipe_.precision.fp16.min_scale = recipe_.precision.fp16.initial_scale;
  EXPECT_THAT(ends(), ::testing::HasSubstr("step 1 is not finite; first: "));
  fs::remove_all(out());
  recipe_.precision.fp16 = {};
  recipe_.precision.loss_scale = "16777216";
  EXPECT_THAT(ends(), ::testing::AllOf(
                          ::testing::HasSubstr("step 1 is not finite; first: "),
                          ::testing::HasSubstr("(loss scale 16777216; a smaller "
                                               "precision.loss_scale, or dynamic, may help)")));
  fs::remove_all(out());
  recipe_.precision.loss_scale = "1024";
  EXPECT_EQ(run().status, "finished");
}

}  // namespace
}  // namespace megalith::train
