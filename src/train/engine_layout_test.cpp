// SPDX-License-Identifier: Apache-2.0
// The layout does not change the bits: losses, gradient norms and the whole state after five steps,
// for everything that may vary between two runs of one recipe. The recipe has dropout, clipping
// that bites, weight decay, z-loss, accumulation over micro-batches and data shards.
#include <gtest/gtest.h>

#include "testing/toy_run.h"

namespace megalith::train {
namespace {

using megalith::testing::Machine;
using megalith::testing::run_toy;
using megalith::testing::toy_settings;
using megalith::testing::ToyRun;

constexpr int kSteps = 5;

/// Nothing if five steps under `other` give the bits of five serial steps of `serial`.
::testing::AssertionResult same(const Settings& serial, const Settings& other,
                                const Machine& machine = {}) {
  ToyRun expected, actual;
  run_toy(serial, kSteps, {}, expected);
  run_toy(other, kSteps, machine, actual);
  if (!actual.state.faults().empty())
    return ::testing::AssertionFailure() << actual.state.faults()[0];
  const std::string found = difference(expected, actual);
  return found.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << found;
}

struct Variant {
  const char* name;
  Settings settings;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  all.push_back({"tied f32", toy_settings()});
  all.push_back({"untied f32", toy_settings()});
  all.back().settings.architecture.tied = false;
  all.push_back({"tied bf16", toy_settings()});
  all.back().settings.weights = all.back().settings.activations = DType::bf16;
  all.push_back({"ragged, materialised, fewer key/value heads", toy_settings()});
  all.back().settings.ragged = true;
  all.back().settings.architecture.attention = models::AttentionKind::materialised;
  all.back().settings.architecture.kv_heads = 2;
  all.back().settings.split.tensor_shards = 2;
  return all;
}

void expect_same_under(const parallel::Layout& layout) {
  for (const Variant& variant : variants()) {
    Settings parallel = variant.settings;
    parallel.layout = layout;
    EXPECT_TRUE(same(variant.settings, parallel)) << variant.name;
  }
}

TEST(EngineLayout, TwoTensorRanks) { expect_same_under({.tensor = 2}); }
TEST(EngineLayout, TwoPipelineRanks) { expect_same_under({.pipeline = 2}); }
TEST(EngineLayout, TwoDataRanks) { expect_same_under({.data = 2}); }
TEST(EngineLayout, TwoOfEach) { expect_same_under({.tensor = 2, .pipeline = 2, .data = 2}); }

TEST(EngineLayout, ThreePipelineRanksWithEveryRecomputation) {
  for (const auto mode :
       {layers::Recompute::none, layers::Recompute::selective, layers::Recompute::full}) {
    Settings other = toy_settings();
    other.layout.pipeline = 3;
    other.recompute = mode;
    EXPECT_TRUE(same(toy_settings(), other));
  }
}

TEST(EngineLayout, Threads) {
  for (const Variant& variant : variants()) {
    for (const int threads : {2, 3}) {
      EXPECT_TRUE(same(variant.settings, variant.settings, {.threads = threads}))
          << variant.name << threads;
    }
  }
}

TEST(EngineLayout, MicroBatches) {
  for (const Variant& variant : variants()) {
    for (const int64_t samples : {1, 4}) {
      Settings other = variant.settings;
      other.micro_batch = samples;
      EXPECT_TRUE(same(variant.settings, other)) << variant.name << samples;
    }
  }
}

TEST(EngineLayout, InstructionSets) {
  if (device::detect_isa() == device::Isa::avx2)
    GTEST_SKIP() << "this machine has one instruction set only";
  for (const Variant& variant : variants()) {
    for (const auto isa : {device::Isa::avx2, device::Isa::avx512}) {
      EXPECT_TRUE(same(variant.settings, variant.settings, {.isa = isa})) << variant.name;
    }
  }
}

TEST(EngineLayout, Recomputation) {
  for (const Variant& variant : variants()) {
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      Settings other = variant.settings;
      other.recompute = mode;
      EXPECT_TRUE(same(variant.settings, other)) << variant.name;
    }
  }
}

TEST(EngineLayout, MaterialisedAttentionInF32) {
  Settings other = toy_settings();
  other.architecture.attention = models::AttentionKind::materialised;
  EXPECT_TRUE(same(toy_settings(), other));
}

/// What must change the bits, does: the comparisons above can fail.
TEST(EngineLayout, TheRecipeDoesChangeTheBits) {
  const auto other = [](auto change) {
    Settings settings = toy_settings();
    change(settings);
    return settings;
  };
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.seed = 7; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.architecture.dropout = 0; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.clip = 0.49; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.z_loss = 0; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.adamw.weight_decay = 0.2; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.split.tensor_shards = 1; })));
}

TEST(EngineLayout, ItLearns) {
  Settings settings = toy_settings();
  settings.architecture.dropout = 0;
  ToyRun run;
  run_toy(settings, 40, {}, run);
  EXPECT_LT(run.loss.back(), run.loss.front() - 1);
  for (size_t i = 0; i < run.grad_norm.size(); ++i) EXPECT_GT(run.grad_norm[i], 0) << i;
}

}  // namespace
}  // namespace megalith::train
