// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/deployment_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "families/families.h"
#include "generate/block_plan.h"

namespace megalith::serving_plan {
namespace {

using ::testing::HasSubstr;

/// Two nodes of four devices with little memory.
clusters::Cluster small_cluster(const std::string& memory) {
  return clusters::parse_cluster(
      "device: {name: card, memory: " + memory +
          ", bandwidth: 1e12, launch_seconds: 1e-5,\n"
          "  products: [{type: bf16, peak: 1e14, share: 0.5, depth: 100}]}\n"
          "node: {devices: 4, count: 2}\n"
          "links: [{devices: 4, bandwidth: 1e11, latency_seconds: 1e-5},"
          " {devices: 0, bandwidth: 1e10, latency_seconds: 2e-5}]\n",
      "small.yaml");
}

const models::ModelSpec kSpec =
    models::gpt2({.layers = 6, .hidden = 256, .heads = 8, .context = 512, .vocab = 1024});
const SearchSpace kSpace{.batches = {1, 8, 64}, .chunks = {64, 256}};
const Workload kWorkload{.input = 100, .output = 20, .requests = 100};

TEST(DeploymentSearch, EveryLayoutBatchAndChunk) {
  const auto all = predict_all(kSpec, small_cluster("4e9"), kSpace, kWorkload);
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> seen;
  for (const Candidate& c : all) {
    EXPECT_EQ(c.failure, "");
    EXPECT_GT(c.latency_ms, 0);
    EXPECT_NEAR(c.throughput, throughput_of(c), 1e-12);
    // Texts that began earlier wait for the prompts of others.
    EXPECT_LE(*c.ttft_ms, c.latency_ms);
    EXPECT_GE(*c.ttft_ms + 19 * *c.tpot_ms, c.latency_ms - 1e-9);
    EXPECT_TRUE(seen.insert({c.tensor, c.pipeline, c.batch, c.details->chunk}).second);
  }
  // tensor x pipeline of at most a node: 1 x 1, 2, 3; 2 x 1, 2; 4 x 1.
  EXPECT_EQ(all.size(), 6u * 3 * 2);
}

/// Two prompts of 100 tokens in passes of 64 tokens, on a clock that passes move.
/// The second waits for the first one's, and the first then for the second's.
TEST(DeploymentSearch, ABatchGoesThroughTheScheduler) {
  const clusters::Cluster clock = clusters::parse_cluster(
      "device: {memory: 1e12, bandwidth: 1e19, launch_seconds: 0.001,\n"
      "  products: [{type: bf16, peak: 1e19, share: 1}]}\n",
      "clock.yaml");
  const auto all = predict_all(kSpec, clock, {.batches = {1, 2}, .chunks = {64}}, kWorkload);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_GT(*all[1].ttft_ms, 1.4 * *all[0].ttft_ms);
  EXPECT_GT(*all[1].tpot_ms, *all[0].tpot_ms);
  EXPECT_LT(all[1].latency_ms, 1.3 * all[0].latency_ms);
}

/// The memory that is told is the plan's of the rank that takes most, and one block more or a
/// request more would not fit.
TEST(DeploymentSearch, BlocksAreCounted) {
  const clusters::Cluster cluster = small_cluster("24e6");
  const auto all = predict_all(kSpec, cluster, {.batches = {64}, .chunks = {64}}, kWorkload);
  int refused = 0;
  for (const Candidate& c : all) {
    EXPECT_LE(c.details->memory, cluster.usable_memory());
    if (c.failure.empty()) {
      EXPECT_GE(c.details->sequences, 64);
    } else {
      EXPECT_THAT(c.failure, HasSubstr("no room"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, std::ssize(all));
}

TEST(DeploymentSearch, OfEqualLayersTwoSmallModelsSayTheMemory) {
  const generate::Scheduler::Limits limits{.sequences = 8, .tokens = 64};
  for (const auto& [tensor, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}, {4, 1}, {2, 2}}) {
    models::ModelSpec spec = kSpec;
    spec.set_num_layers(8);
    inference::InferenceModel::Options options{.compute = DType::bf16,
                                               .tensor_shards = 8,
                                               .layout = {.tensor = tensor, .pipeline = pipeline}};
    const auto ranks = generate::plan_memory(spec, options, device::cpu_target(1), limits, 120);
    const generate::RankMemory most = largest_rank(spec, options, limits, 120);
    int64_t largest = 0;
    for (const generate::RankMemory& rank : ranks)
      largest = std::max(largest, rank.weights + rank.pass);
    EXPECT_EQ(most.weights + most.pass, largest) << tensor << " x " << pipeline;
    EXPECT_EQ(most.block, ranks.front().block);
  }
}

TEST(DeploymentSearch, BlocksOfWeightsTakeLess) {
  const SearchSpace space{
      .batches = {1}, .chunks = {64}, .weights = {Format::bf16, Format::q8_0}, .most_gpus = 1};
  const auto all = predict_all(kSpec, small_cluster("4e9"), space, kWorkload);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_LT(all[1].details->memory, all[0].details->memory);
  EXPECT_LT(all[1].latency_ms, all[0].latency_ms);
  EXPECT_EQ(all[1].details->weights, "q8_0");
}

TEST(DeploymentSearch, WithArrivalsTheTailIsTold) {
  Workload workload = kWorkload;
  workload.arrivals = 5;
  const SearchSpace space{.batches = {1, 8}, .chunks = {256}, .most_gpus = 1};
  const auto calm = predict_all(kSpec, small_cluster("4e9"), space, workload);
  workload.arrivals = 1e4;
  const auto full = predict_all(kSpec, small_cluster("4e9"), space, workload);
  for (size_t i = 0; i < calm.size(); ++i) {
    EXPECT_EQ(calm[i].failure, "");
    EXPECT_EQ(calm[i].throughput, 5);
    EXPECT_THAT(full[i].failure, HasSubstr("the queue grows"));
  }
}

TEST(DeploymentSearch, ARequestThatIsTooLongIsRefused) {
  Workload workload = kWorkload;
  workload.output = 413;
  try {
    predict_all(kSpec, small_cluster("4e9"), kSpace, workload);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("more than the context of the model, 512"));
  }
}

}  // namespace
}  // namespace megalith::serving_plan
