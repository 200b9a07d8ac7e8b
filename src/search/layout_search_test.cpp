// SPDX-License-Identifier: Apache-2.0
#include "search/layout_search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "account/layout_plan.h"
#include "base/error.h"
#include "costs/published_run.h"
#include "families/families.h"

namespace megalith::search {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

clusters::Cluster cluster_of(const std::string& file) {
  return clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) / "recipes/clusters" / file);
}

/// Small enough to try everything by force.
engine::Settings small() {
  engine::Settings s;
  s.model = models::gpt2({.layers = 8, .hidden = 1024, .heads = 8, .context = 512, .vocab = 8192});
  s.split = {8, 1};
  s.weights = s.activations = DType::bf16;
  s.batch.full = 32;
  return s;
}

SearchOptions options_for(int64_t devices) {
  SearchOptions options;
  options.devices = devices;
  options.threads = 2;
  return options;
}

/// The ranking is that of all layouts, each with its schedule run, without bounds.
TEST(LayoutSearch, TheOrderIsThatOfForce) {
  const engine::Settings base = small();
  const clusters::Cluster cluster = cluster_of("a100_80gb.yaml");
  const SearchResult result = search_layouts(base, cluster, options_for(8));
  std::vector<Candidate> all;
  for (LayoutPoint point : space_of(base, 8).points) {
    for (const int zero : {0, 1}) {
      if (zero > 0 && point.data == 1) continue;
      point.zero = zero;
      for (const auto mode :
           {layers::Recompute::none, layers::Recompute::selective, layers::Recompute::full}) {
        point.recompute = {mode, 0};
        Candidate c;
        c.point = point;
        const engine::Settings s = settings_at(base, point);
        c.time = costs::StepTimes(s, cluster).simulated(s);
        all.push_back(c);
      }
    }
  }
  std::ranges::sort(all, {}, [](const Candidate& c) { return c.time.seconds; });
  std::vector<Candidate> best;  // one of each cut
  for (const Candidate& c : all) {
    if (std::ranges::none_of(best,
                             [&](const Candidate& b) { return b.point.is_variant_of(c.point); }))
      best.push_back(c);
  }
  ASSERT_EQ(result.best.size(), 10u);
  for (size_t i = 0; i < result.best.size(); ++i)
    EXPECT_DOUBLE_EQ(result.best[i].time.seconds, best[i].time.seconds) << i;
  EXPECT_GE(result.judged, static_cast<int64_t>(all.size()));
}

TEST(LayoutSearch, MemoryOfTheBestIsThePlans) {
  const engine::Settings base = small();
  const clusters::Cluster cluster = cluster_of("a100_80gb.yaml");
  const SearchResult result = search_layouts(base, cluster, options_for(4));
  const Candidate& best = result.best.front();
  int64_t most = 0;
  for (const account::MemoryByClass& memory :
       account::plan_memory(settings_at(base, best.point),
                            {device::DeviceKind::cpu, device::Isa::avx512_bf16, 1}, {}))
    most = std::max(most, memory.total);
  EXPECT_EQ(best.memory_bytes, most);
}

/// With less memory layouts are refused, and layers are recomputed until the rest fits.
TEST(LayoutSearch, LittleMemoryAsksForRecomputation) {
  const engine::Settings base = small();
  clusters::Cluster cluster = cluster_of("a100_80gb.yaml");
  const SearchResult roomy = search_layouts(base, cluster, options_for(1));
  EXPECT_EQ(roomy.refused, 0);
  EXPECT_EQ(roomy.best.front().point.recompute.mode, layers::Recompute::none);
  int64_t least = roomy.pareto.back().memory_bytes;
  cluster.device.reserved = 0;
  cluster.device.memory = least + least / 50;
  const SearchResult tight = search_layouts(base, cluster, options_for(1));
  EXPECT_GT(tight.refused, 0);
  for (const Candidate& c : tight.best) {
    EXPECT_LE(c.memory_bytes, cluster.device.memory);
    EXPECT_GE(c.time.seconds, roomy.best.front().time.seconds);
  }
  ASSERT_FALSE(tight.refusals.empty());
  EXPECT_THAT(tight.refusals.back().reason, HasSubstr("memory, mostly"));
  EXPECT_THAT(tight.refusals.back().mend, HasSubstr(" fits: "));
  cluster.device.memory = least / 10;
  EXPECT_THAT([&] { search_layouts(base, cluster, options_for(1)); },
              ThrowsMessage<UserError>(HasSubstr("nothing of")));
}

TEST(LayoutSearch, AnEmptySpaceIsSaidWithItsReasons) {
  engine::Settings base = small();
  base.batch.full = 1;
  const clusters::Cluster cluster = cluster_of("a100_80gb.yaml");
  EXPECT_THAT([&] { search_layouts(base, cluster, options_for(4480)); },
              ThrowsMessage<UserError>(HasSubstr("no layout of 4480 devices is possible")));
  EXPECT_THAT([&] { search_layouts(base, cluster, options_for(1 << 20)); },
              ThrowsMessage<UserError>(HasSubstr("are more than the 4480 of cluster")));
  EXPECT_THAT([&] { search_layouts(base, cluster_of("b200.yaml"), options_for(8)); },
              ThrowsMessage<UserError>(HasSubstr("nobody has measured")));
}

TEST(LayoutSearch, TheParetoFrontHasNothingFasterAndSmaller) {
  const SearchResult result = search_layouts(small(), cluster_of("a100_80gb.yaml"), options_for(8));
  for (size_t i = 1; i < result.pareto.size(); ++i) {
    EXPECT_GE(result.pareto[i].time.seconds, result.pareto[i - 1].time.seconds);
    EXPECT_LT(result.pareto[i].memory_bytes, result.pareto[i - 1].memory_bytes);
  }
}

costs::PublishedRun gpt3(int tensor, int pipeline, int chunks, int64_t global_batch) {
  return {.name = "175B",
          .heads = 96,
          .hidden = 12288,
          .layers = 96,
          .tensor = tensor,
          .pipeline = pipeline,
          .chunks = chunks,
          .devices = 1024,
          .global_batch = global_batch,
          .micro_batch = 1,
          .recompute = layers::Recompute::selective,
          .sequence = true,
          .zero = true};
}

SearchResult search_for(const costs::PublishedRun& run, size_t top) {
  engine::Settings base = costs::settings_of(run);
  base.split.data_shards = 1;
  SearchOptions options = options_for(run.devices);
  options.top = top;
  return search_layouts(base, cluster_of("a100_80gb.yaml"), options);
}

/// The 175B on 1,024 devices, all axes.
TEST(LayoutSearch, TenThousandCandidatesOfALargeModel) {
  const std::clock_t begin = std::clock();  // of all threads: others may use the machine too
  const SearchResult result = search_for(gpt3(8, 8, 1, 1536), 10);
  EXPECT_GE(result.judged, 10000);
  EXPECT_LE(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 60);  // two cores, 30 s
  ASSERT_EQ(result.best.size(), 10u);
  for (const Candidate& c : result.best) {
    // The estimate lets in what the plan lets in.
    EXPECT_NEAR(static_cast<double>(c.estimate.total()) / static_cast<double>(c.memory_bytes), 1,
                0.01);
    EXPECT_GE(c.time.seconds, result.best.front().time.seconds);
  }
}

/// NeMo-Megatron's layout of 2022 on 128 nodes, which recomputes selectively: its cut is among the
/// first four of all, 1.1 % behind the first. It is 5 % behind as it was, since without
/// recomputation it fits too; a micro-batch of two with as many bytes is what the first has.
TEST(LayoutSearch, APublishedLayoutIsAmongTheBest) {
  const SearchResult result = search_for(gpt3(4, 8, 12, 2048), 4);
  const double best = result.best.front().time.seconds;
  EXPECT_GT(result.own_place, 0);
  EXPECT_LE(result.own.time.seconds / best - 1, 0.055);
  const auto cut = std::ranges::find_if(
      result.best, [&](const Candidate& c) { return c.point.is_variant_of(result.own.point); });
  ASSERT_NE(cut, result.best.end());
  EXPECT_LE(cut->time.seconds / best - 1, 0.02);
}

}  // namespace
}  // namespace megalith::search
