// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/measured_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/families.h"
#include "serving_plan/deployment_search.h"
#include "serving_plan/pass_time.h"

namespace megalith::serving_plan {
namespace {

using clusters::ProductType;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kLayers = 4, kHidden = 128, kVocab = 640;

models::ModelSpec spec() {
  return models::gpt2(
      {.layers = kLayers, .hidden = kHidden, .heads = 4, .context = 256, .vocab = kVocab});
}

/// A machine on which only what `serving` names takes time.
clusters::Cluster machine(std::vector<clusters::KernelRate> serving) {
  clusters::Cluster c;
  c.name = "made up";
  c.device.memory = int64_t{1} << 40;
  c.device.bandwidth = 1e19;
  c.device.products = {{.type = ProductType::bf16, .peak = 1e19, .share = 1}};
  c.device.serving = std::move(serving);
  c.node.devices = 4;
  c.links = {{.name = "threads", .devices = 0, .bandwidth = 1e19}};
  return c;
}

double through(const clusters::Cluster& c, Rows rows, const Deployment& at = {}) {
  const models::ModelSpec model = spec();
  return PassTimes(model, c, at).through({&rows, 1});
}

/// Weights of all products of a token, with the table that is the head.
constexpr double kWeights = kLayers * 12.0 * kHidden * kHidden + kVocab * kHidden;

TEST(MeasuredPasses, WeightsAreReadOnceAPassAtTheRateOfTheirFormat) {
  const clusters::Cluster c =
      machine({{.name = "linear_forward", .type = ProductType::bf16, .bandwidth = 1},
               {.name = "linear_forward.q8_0", .type = ProductType::bf16, .bandwidth = 10},
               {.name = "linear_forward.q4_0", .type = ProductType::bf16, .bandwidth = 100}});
  // Rows and biases are a few parts in a hundred.
  EXPECT_NEAR(through(c, {1, 32, 1}) / (2 * kWeights), 1, 0.03);
  EXPECT_NEAR(through(c, {1, 32, 1}, {.weights = Format::q8_0}) / (kWeights * 34 / 32 / 10), 1,
              0.1);
  // Of 4 bits the layers alone; the table of logits is in q8_0.
  const double layers = kLayers * 12.0 * kHidden * kHidden;
  EXPECT_NEAR(through(c, {1, 32, 1}, {.weights = Format::q4_0}) /
                  (layers * 18 / 32 / 100 + kVocab * kHidden * 34.0 / 32 / 10),
              1, 0.1);
  EXPECT_LT(through(c, {1, 32, 8}), 1.3 * through(c, {1, 32, 1}));
}

TEST(MeasuredPasses, OperationsGrowWithRows) {
  const clusters::Cluster c =
      machine({{.name = "linear_forward", .type = ProductType::bf16, .flops = 1}});
  EXPECT_DOUBLE_EQ(through(c, {1, 32, 8}), 8 * through(c, {1, 32, 1}));
  EXPECT_DOUBLE_EQ(through(c, {1, 32, 1}), 2 * kWeights);
  // A prompt has the logits of its last token alone.
  const double layers = kLayers * 24.0 * kHidden * kHidden;
  EXPECT_DOUBLE_EQ(through(c, {48, 0, 1}), 48 * layers + 2.0 * kVocab * kHidden);
  EXPECT_DOUBLE_EQ(through(c, {48, 0, 1, false}), 48 * layers);
  // Two prompts and a half in a pass lie between two and three; a part alone counts as whole.
  EXPECT_DOUBLE_EQ(through(c, {48, 0, 2.5}), 2.5 * through(c, {48, 0, 1}));
  EXPECT_DOUBLE_EQ(through(c, {48, 0, 0.5}), through(c, {48, 0, 1}));
}

/// One row at one rate, many at another.
TEST(MeasuredPasses, RatesByOperationsAByte) {
  const clusters::Cluster c = machine(
      {{.name = "linear_forward", .type = ProductType::bf16, .flops = 1, .most_intensity = 1.5},
       {.name = "linear_forward", .type = ProductType::bf16, .flops = 1000}});
  EXPECT_DOUBLE_EQ(through(c, {1, 32, 1}), 2 * kWeights);
  EXPECT_DOUBLE_EQ(through(c, {1, 32, 16}), 16 * 2 * kWeights / 1000);
}

TEST(MeasuredPasses, AttentionReadsWhatWasRead) {
  const clusters::Cluster c =
      machine({{.name = "attention_cached", .type = ProductType::bf16, .bandwidth = 1}});
  const double early = through(c, {1, 32, 1}), late = through(c, {1, 160, 1});
  // Keys and values of 128 tokens more, in two bytes each.
  EXPECT_NEAR((late - early) / (kLayers * 2.0 * 128 * kHidden * 2), 1, 0.15);
}

/// What has no rate takes the roofline's time, and is named.
TEST(MeasuredPasses, KernelsWithoutARateAreNamed) {
  const models::ModelSpec model = spec();
  const clusters::Cluster c =
      machine({{.name = "linear_forward", .type = ProductType::bf16, .flops = 1}});
  const PassTimes times(model, c, {});
  EXPECT_TRUE(times.unmeasured().empty());
  const Rows one{1, 32, 1};
  times.through({&one, 1});
  EXPECT_THAT(times.unmeasured(), Contains("attention_cached"));
  EXPECT_THAT(times.unmeasured(), Not(Contains("linear_forward")));
  Candidate candidate;
  candidate.details.emplace().unmeasured = times.unmeasured();
  EXPECT_THAT(
      assumptions(c, {}, {&candidate, 1}),
      Contains(AllOf(HasSubstr("no rate was measured here of"), HasSubstr("by the roofline"))));
  candidate.details->unmeasured.clear();
  EXPECT_THAT(assumptions(c, {}, {&candidate, 1}), Not(Contains(HasSubstr("by the roofline"))));
}

/// Each kernel's call, and the logits that a token is chosen from.
TEST(MeasuredPasses, WhatIsOutsideOfKernels) {
  const auto outside = [](double call, double bandwidth) {
    return machine({{.name = std::string(clusters::kOutsideKernels),
                     .type = ProductType::bf16,
                     .call_seconds = call,
                     .bandwidth = bandwidth}});
  };
  const double calls = through(outside(1, 0), {1, 32, 1});
  EXPECT_GT(calls, 7 * kLayers);
  EXPECT_LT(calls, 25 * kLayers);
  EXPECT_NEAR(through(outside(0, 1), {1, 32, 3}), 3 * 4 * kVocab, 1e-9);
}

TEST(MeasuredPasses, StagesShareLayersAndRanksShareColumns) {
  const clusters::Cluster c =
      machine({{.name = "linear_forward", .type = ProductType::bf16, .flops = 1}});
  const double whole = through(c, {1, 32, 1});
  EXPECT_NEAR(through(c, {1, 32, 1}, {.pipeline = 2}), whole, 1e-6 * whole);
  EXPECT_NEAR(through(c, {1, 32, 1}, {.tensor = 2}), whole / 2, 1e-6 * whole);
  const models::ModelSpec model = spec();
  const Rows rows{1, 32, 1};
  const PassTimes times(model, c, {.pipeline = 2});
  EXPECT_GT(times.pipelined({&rows, 1}, 2), 1.4 * whole);
}

/// Ranks that are more than the cores take turns.
TEST(MeasuredPasses, RanksThatShareCores) {
  clusters::Cluster c =
      machine({{.name = "linear_forward", .type = ProductType::bf16, .flops = 1}});
  const double alone = through(c, {1, 32, 1}, {.tensor = 4});
  c.node.at_once = 2;
  EXPECT_DOUBLE_EQ(through(c, {1, 32, 1}, {.tensor = 4}), 2 * alone);
}

}  // namespace
}  // namespace megalith::serving_plan
