// SPDX-License-Identifier: Apache-2.0
#include "search/nemo_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "account/layout_plan.h"
#include "account/paper_table.h"
#include "base/error.h"
#include "families/families.h"

namespace megalith::search {
namespace {

using layers::Recompute;
using ::testing::HasSubstr;

engine::Settings paper(size_t row, int64_t batch) {
  engine::Settings s =
      account::paper_settings(account::paper_models()[row], false, Recompute::none);
  s.batch.full = batch;
  s.split.data_shards = 1;
  return s;
}

engine::Settings small(Recompute recompute) {
  engine::Settings s;
  s.model = models::gpt2({.layers = 8, .hidden = 1024, .heads = 8, .context = 2048, .vocab = 8192});
  s.split = {8, 1};
  s.weights = s.activations = DType::bf16;
  s.batch.full = 64;
  s.recompute = {recompute, 0};
  return s;
}

TEST(NemoLayouts, TheToolIsToldWhatTheRecipeSays) {
  const sizing::NemoModel m = nemo_model(paper(1, 2048), 0, 1024, 80);
  EXPECT_NEAR(m.size, 175, 1);
  EXPECT_EQ(m.layers, 96);
  EXPECT_EQ(m.heads, 96);
  EXPECT_EQ(m.sequence, 2048);
  EXPECT_EQ(m.global_batch, 2048);
  EXPECT_EQ(m.family, sizing::NemoFamily::gpt);
  EXPECT_FALSE(m.block);
  EXPECT_EQ(nemo_model(paper(1, 2048), 175, 1024, 80).size, 175);
  EXPECT_TRUE(nemo_model(small(Recompute::full), 0, 8, 80).block);
  EXPECT_FALSE(nemo_model(small(Recompute::selective), 0, 8, 80).block);
}

/// All nine of the 175B on 128 nodes, as the tool's base file has what is beside.
TEST(NemoLayouts, OfThe175B) {
  const engine::Settings base = paper(1, 2048);
  const auto all = nemo_layouts(base, nemo_model(base, 175, 1024, 80));
  ASSERT_EQ(all.size(), 9u);
  for (const NemoLayout& layout : all) {
    ASSERT_TRUE(layout.point) << layout.fault;
    const LayoutPoint& p = *layout.point;
    EXPECT_EQ(p.tensor * p.pipeline * p.data, 1024);
    EXPECT_EQ(p.chunks * p.pipeline, 96);  // one layer each
    EXPECT_EQ(p.schedule, config::PipelineSchedule::interleaved);
    EXPECT_TRUE(p.sequence);
    EXPECT_EQ(p.zero, 1);
    EXPECT_EQ(p.recompute.mode, Recompute::none);
    EXPECT_EQ(p.micro_batch, layout.candidate.micro_batch);
  }
}

TEST(NemoLayouts, SmallModelsHaveNoSequenceParallelism) {
  const engine::Settings base = small(Recompute::selective);
  const auto all = nemo_layouts(base, nemo_model(base, 0, 8, 80));
  // Tensor ranks 1 and 2, micro-batches 1, 2, 4 and 8 (3 and 6 do not divide 64 samples).
  ASSERT_EQ(all.size(), 8u);
  for (const NemoLayout& layout : all) {
    ASSERT_TRUE(layout.point) << layout.fault;
    EXPECT_FALSE(layout.point->sequence);
    EXPECT_EQ(layout.point->recompute.mode, Recompute::selective);
  }
}

/// Of blocks only what is the same in all stages and micro-batches is a layout here.
TEST(NemoLayouts, BlocksOfRecomputedLayers) {
  const engine::Settings base = small(Recompute::full);
  const auto one_stage = nemo_layouts(base, nemo_model(base, 0, 8, 80));
  ASSERT_EQ(one_stage.size(), 8u * 3);  // 0, 4 and 8 layers
  EXPECT_EQ(one_stage[0].point->recompute.mode, Recompute::none);
  EXPECT_EQ(one_stage[0].point->recompute.full_layers, 0);
  EXPECT_EQ(one_stage[8].candidate.layers, 4);
  EXPECT_EQ(one_stage[8].point->recompute.full_layers, 4);
  EXPECT_EQ(one_stage[16].candidate.layers, 8);
  EXPECT_EQ(one_stage[16].point->recompute.mode, Recompute::full);
  // As if it had 20 billion parameters: up to four stages.
  const auto several = nemo_layouts(base, nemo_model(base, 20, 8, 80));
  int64_t expressed = 0;
  for (const NemoLayout& layout : several) {
    const sizing::NemoCandidate& c = layout.candidate;
    if (!layout.point) continue;
    ++expressed;
    EXPECT_TRUE(c.per_stage.value_or(0) == 0 || c.layers == 0);
    EXPECT_EQ(layout.point->chunks, c.pipeline > 2 ? 8 / c.pipeline : 1);
    const bool is_all = c.layers.value_or(0) * c.chunks * c.pipeline == 8;
    EXPECT_EQ(layout.point->recompute.mode, is_all ? Recompute::full : Recompute::none);
    EXPECT_TRUE(is_all || !c.micro_batches || *c.micro_batches >= c.pipeline);
  }
  EXPECT_GT(expressed, 0);
  EXPECT_LT(expressed, std::ssize(several));
  const auto out = std::ranges::find_if(several, [](const auto& l) { return !l.point; });
  EXPECT_THAT(out->fault, HasSubstr("different layers"));
}

/// The tool lets ranks of a model pass that are more than the GPUs: such runs could not start.
TEST(NemoLayouts, MoreRanksThanGpus) {
  const engine::Settings base = paper(1, 2048);
  const auto all = nemo_layouts(base, nemo_model(base, 175, 8, 80));
  ASSERT_FALSE(all.empty());
  for (const NemoLayout& layout : all) {
    EXPECT_FALSE(layout.point);
    EXPECT_THAT(layout.fault, HasSubstr("do not share 8 GPUs"));
  }
}

TEST(NemoLayouts, ACanonicalSplitThatDoesNotAllowIt) {
  engine::Settings base = paper(1, 2048);
  base.split.data_shards = 3;
  for (const NemoLayout& layout : nemo_layouts(base, nemo_model(base, 175, 1024, 80)))
    EXPECT_THAT(layout.fault, HasSubstr("parallel.data_shards 3"));
}

/// Times are those of the schedule, bytes those of the plan; what does not fit is there too.
TEST(NemoLayouts, EachIsJudgedToTheByte) {
  const engine::Settings base = paper(0, 64);
  const clusters::Cluster cluster = clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) /
                                                           "recipes/clusters/a100_80gb.yaml");
  SearchOptions options;
  options.devices = 8;
  const auto layouts = nemo_layouts(base, nemo_model(base, 22, 8, 80));
  std::vector<LayoutPoint> points;
  for (const NemoLayout& layout : layouts) points.push_back(layout.point.value());
  const auto judged = judge_layouts(base, cluster, options, points);
  ASSERT_EQ(judged.size(), points.size());
  int64_t fitting = 0;
  for (size_t i = 0; i < judged.size(); ++i) {
    EXPECT_EQ(judged[i].point, points[i]);
    const engine::Settings s = settings_at(base, points[i]);
    EXPECT_EQ(judged[i].time.seconds, costs::StepTimes(s, cluster).simulated(s).seconds);
    int64_t most = 0;
    for (const account::MemoryByClass& rank : account::plan_memory(s, options.target, {}))
      most = std::max(most, rank.total);
    EXPECT_EQ(judged[i].memory_bytes, most);
    fitting += most <= cluster.usable_memory();
  }
  EXPECT_GT(fitting, 0);
  EXPECT_LT(fitting, std::ssize(judged));
}

}  // namespace
}  // namespace megalith::search
