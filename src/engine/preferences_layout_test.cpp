// SPDX-License-Identifier: Apache-2.0
// Losses of pairs of answers through the whole engine: no layout, micro-batch, recomputation,
// number of threads or instruction set changes a bit of losses, of what is told beside them, or of
// what trains, be it all weights, factors or vectors.
#include "data/host_batch.h"
#include "engine/not_finite.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using testing::SerialRun;
using testing::Variant;

constexpr int kSteps = 4;

Settings compared(Settings settings, double smoothing = 0) {
  settings.ragged = true;
  settings.preferences = layers::PreferenceLoss{0.3, smoothing};
  return settings;
}

std::vector<Variant> variants() {
  const Settings gpt = compared(testing::toy_settings()),
                 llama = compared(testing::toy_llama_settings(), 0.1);
  std::vector<Variant> all;
  all.push_back({"f32", gpt});
  all.push_back({"llama f32, smoothed", llama});
  Settings narrow = llama;
  narrow.weights = narrow.activations = DType::bf16;
  narrow.predicted_per_sample = 12;
  all.push_back({"llama bf16, learned rows alone", narrow});
  all.push_back({"f16", testing::in_f16(gpt)});
  all.push_back({"factors", testing::with_factors(gpt)});
  all.push_back({"vectors", testing::with_vectors(llama)});
  all.push_back({"delayed", testing::in_fp8(gpt, precision::ScalingPolicy::delayed)});
  return all;
}

void expect_same_under(const parallel::Layout& layout, int zero = 0) {
  for (const Variant& variant : variants()) {
    Settings other = variant.settings;
    other.layout = layout;
    other.zero = zero;
    EXPECT_EQ(SerialRun(variant.settings, kSteps).difference(other), "") << variant.name;
  }
}

TEST(PreferencesLayout, TensorRanks) {
  expect_same_under({.tensor = 2});
  expect_same_under({.tensor = 4});
}
TEST(PreferencesLayout, PipelineRanks) { expect_same_under({.pipeline = 3}); }
TEST(PreferencesLayout, DataRanks) { expect_same_under({.data = 2}); }
TEST(PreferencesLayout, SequenceParallel) {
  expect_same_under({.tensor = 2, .sequence = true});
  expect_same_under({.tensor = 4, .sequence = true});
}
TEST(PreferencesLayout, SpreadState) {
  expect_same_under({.data = 2}, 1);
  expect_same_under({.tensor = 2, .pipeline = 3, .data = 2, .sequence = true}, 1);
}

TEST(PreferencesLayout, RecomputationThreadsAndMicroBatches) {
  for (const Variant& variant : variants()) {
    const SerialRun serial(variant.settings, kSteps);
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      Settings other = variant.settings;
      other.recompute.mode = mode;
      other.micro_batch = 1;
      EXPECT_EQ(serial.difference(other, {.threads = 2}), "") << variant.name;
    }
    Settings whole = variant.settings;
    whole.micro_batch = 4;
    EXPECT_EQ(serial.difference(whole, {.isa = device::Isa::avx2}), "") << variant.name;
  }
}

/// The head may compute the rows that are learned alone. (The bf16 chain pairs rows, and then
/// others.)
TEST(PreferencesLayout, LearnedRowsAlone) {
  for (const Variant& variant : variants()) {
    if (is_half(variant.settings.activations)) continue;
    Settings all = variant.settings;
    all.predicted_per_sample = 0;
    Settings alone = all;
    alone.predicted_per_sample = 12;
    EXPECT_EQ(SerialRun(all, kSteps).difference(alone), "") << variant.name;
  }
}

/// What must change the bits, does.
TEST(PreferencesLayout, BetaAndSmoothingDoChangeThem) {
  const Settings settings = compared(testing::toy_settings());
  const SerialRun run(settings, 2);
  Settings beta = settings, smoothed = settings;
  beta.preferences->beta = 0.4;
  smoothed.preferences->label_smoothing = 0.1;
  EXPECT_NE(run.difference(beta), "");
  EXPECT_NE(run.difference(smoothed), "");
}

/// Rewards of chosen answers rise above those of rejected ones.
TEST(Preferences, AreLearned) {
  Settings settings = compared(testing::toy_settings());
  settings.model.dropout = 0;
  settings.batch.full = 8;
  testing::OneRank one(settings);
  const auto batches = testing::toy_micro_batches(settings, 1, 0);
  const double weight = testing::toy_weight(settings, 1);
  StepResult first, last;
  for (int step = 1; step <= 40; ++step) {
    last = one.engine.step(step, 1e-2, batches, weight);
    if (step == 1) first = last;
  }
  EXPECT_LT(last.loss, 0.2 * first.loss);
  ASSERT_EQ(last.told.size(), std::size(layers::kToldOfPairs));
  EXPECT_GT(last.told[0], last.told[1]);
  EXPECT_NEAR(last.told[0] - last.told[1], last.told[2], 1e-5);
  EXPECT_EQ(last.told[3], 1);
  // Behind it the same numbers are those of a validation.
  const SampleLosses again = one.engine.sample_losses(testing::toy_batch(settings, 0, 8));
  EXPECT_EQ(again.told.size(), 8 * last.told.size());
}

TEST(Preferences, OfTheFirstSampleThoseOfIt) {
  const Settings settings = compared(testing::toy_settings());
  const data::HostBatch both = testing::toy_batch(settings, 3, 2),
                        alone = testing::toy_batch(settings, 3, 1), first = first_sample(both);
  EXPECT_EQ(first.compared_rows, alone.compared_rows);
  EXPECT_EQ(first.target_numbers, alone.target_numbers);
  EXPECT_EQ(first.loss_weight_T, alone.loss_weight_T);
  EXPECT_EQ(first.targets_T, alone.targets_T);
  EXPECT_EQ(first.cu_seqlens, alone.cu_seqlens);
  EXPECT_EQ(first.total_weight, alone.total_weight);
}

TEST(Preferences, WhatIsNotFiniteIsNamedByItsPair) {
  const Settings settings = compared(testing::toy_settings());
  testing::OneRank one(settings);
  std::vector<data::HostBatch> batches{testing::toy_batch(settings, 0, 2),
                                       testing::toy_batch(settings, 2, 2)};
  // The second pair of sample 0.
  batches[0].target_numbers[2] = std::numeric_limits<float>::infinity();
  const double weight = batches[0].total_weight + batches[1].total_weight;
  EXPECT_EQ(first_not_finite(one.engine, 1, batches, weight), "loss of pair 1 of sample 0");
}

}  // namespace
}  // namespace megalith::engine
