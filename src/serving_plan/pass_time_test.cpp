// SPDX-License-Identifier: Apache-2.0
// Predicted from hardware figures that were fitted to training alone (recipes/clusters/
// a100_80gb.yaml), against latencies that FasterTransformer published: nothing here is fitted.
#include "serving_plan/pass_time.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "families/families.h"
#include "serving_plan/batch_latency_fixture.h"
#include "serving_plan/published_latency_fixture.h"

namespace megalith::serving_plan {
namespace {

using ::testing::HasSubstr;

clusters::Cluster a100() {
  return clusters::load_cluster(std::string(MEGA_SOURCE_DIR) + "/recipes/clusters/a100_80gb.yaml");
}

models::ModelSpec spec_of(const PublishedModel& model) {
  models::ModelSpec spec = models::gpt2({.layers = model.layers,
                                         .hidden = model.heads * model.head_size,
                                         .heads = model.heads,
                                         .context = 2048,
                                         .vocab = kPublishedVocab});
  // FasterTransformer stored the scores of prompts.
  spec.for_each_layer([](layers::LayerSpec& layer) { layer.set_materialised(true); });
  return spec;
}

struct Compared {
  double predicted, published;
  bool is_decode_bound;
};

std::vector<Compared> compare(const PublishedModel& model, const clusters::Cluster& cluster) {
  const models::ModelSpec spec = spec_of(model);
  std::vector<Compared> all;
  for (const PublishedLatency& row : model.rows) {
    if (row.milliseconds == 0) continue;
    const PassTimes times(
        spec, cluster,
        {.tensor = row.tensor, .pipeline = row.pipeline, .products = clusters::ProductType::f16});
    const BatchLatency latency = batch_latency(
        times, row.pipeline,
        {.batch = row.batch, .input = row.input, .output = row.output, .in_parts = true});
    all.push_back({1e3 * latency.total(), row.milliseconds, latency.decode > latency.prefill});
  }
  return all;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Ties have the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    double below = 0, equal = 0;
    for (const double other : values) {
      below += other < value;
      equal += other == value;
    }
    ranks.push_back(below + (equal - 1) / 2);
  }
  return ranks;
}

double spearman(const std::vector<Compared>& rows) {
  std::vector<double> x, y;
  for (const Compared& row : rows) {
    x.push_back(row.predicted);
    y.push_back(row.published);
  }
  const std::vector<double> a = ranks_of(x), b = ranks_of(y);
  const double mean = (static_cast<double>(rows.size()) - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return ab / std::sqrt(aa * bb);
}

double median_error(const std::vector<Compared>& rows, bool decode_bound_alone) {
  std::vector<double> errors;
  for (const Compared& row : rows)
    if (row.is_decode_bound || !decode_bound_alone)
      errors.push_back(std::abs(row.predicted / row.published - 1));
  return median(errors);
}

/// 320 rows of seven models, one GPU to 32, prompts of 20 to 512 tokens.
TEST(PassTime, PublishedLatenciesFromHardwareAlone) {
  const clusters::Cluster cluster = a100();
  std::vector<Compared> all;
  for (const PublishedModel& model : kPublishedModels) {
    const std::vector<Compared> rows = compare(model, cluster);
    fmt::print("{:>5}: median error {:4.1f} % of {} rows, {:4.1f} % where decoding takes most\n",
               model.name, 100 * median_error(rows, false), rows.size(),
               100 * median_error(rows, true));
    EXPECT_LT(median_error(rows, true), 0.25) << model.name;
    EXPECT_GE(spearman(rows), 0.95) << model.name;
    all.insert(all.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(all.size(), 320u);
  fmt::print(
      "  all: median error {:4.1f} %, {:4.1f} % where decoding takes most, rank correlation "
      "{:.4f}\n",
      100 * median_error(all, false), 100 * median_error(all, true), spearman(all));
  EXPECT_LT(median_error(all, true), 0.15);
  EXPECT_LT(median_error(all, false), 0.15);
  EXPECT_GE(spearman(all), 0.985);
}

/// One token of one sequence on one device: all weights once, the keys and values, seven launches a
/// layer.
TEST(PassTime, OneTokenIsWhatHasToBeRead) {
  const clusters::Cluster cluster = a100();
  const models::ModelSpec spec = spec_of(kPublishedModels[0]);
  const PassTimes times(spec, cluster, {.products = clusters::ProductType::f16});
  const Rows row{.count = 1, .past = 1000};
  const double bandwidth = cluster.device.bandwidth * cluster.device.bandwidth_share;
  const double h = 6144, layers = 44;
  const double read = 2 * (12 * h * h * layers + h * 51200) + 2 * 2 * h * 1001 * layers;
  const double launches = (7 * layers + 3) * cluster.device.launch_seconds;
  EXPECT_NEAR(times.through({&row, 1}), read / bandwidth + launches, 0.01 * (read / bandwidth));
}

TEST(PassTime, BlocksOfWeightsAreReadFaster) {
  const clusters::Cluster cluster = a100();
  const models::ModelSpec spec = spec_of(kPublishedModels[2]);
  const Rows row{.count = 1, .past = 10};
  const auto seconds = [&](Format format) {
    return PassTimes(spec, cluster, {.tensor = 8, .weights = format}).through({&row, 1});
  };
  EXPECT_LT(seconds(Format::q8_0), seconds(Format::bf16));
  EXPECT_LT(seconds(Format::q4_0), seconds(Format::q8_0));
}

TEST(PassTime, AWindowBoundsWhatIsRead) {
  const clusters::Cluster cluster = a100();
  models::ModelSpec spec = spec_of(kPublishedModels[5]);
  const Rows near{.count = 1, .past = 100}, far{.count = 1, .past = 2000};
  const auto grows = [&] {
    const PassTimes times(spec, cluster, {.products = clusters::ProductType::f16});
    return times.through({&far, 1}) - times.through({&near, 1});
  };
  EXPECT_GT(grows(), 0);
  spec.for_each_layer([](layers::LayerSpec& layer) { layer.attention.window = 64; });
  EXPECT_EQ(grows(), 0);
}

TEST(PassTime, PartsFollowOneAnotherThroughThePipeline) {
  const clusters::Cluster cluster = a100();
  const models::ModelSpec spec = spec_of(kPublishedModels[1]);
  const PassTimes times(spec, cluster,
                        {.tensor = 8, .pipeline = 3, .products = clusters::ProductType::f16});
  const Rows rows{.count = 1, .past = 60, .times = 8};
  const double one = times.through({&rows, 1});
  EXPECT_NEAR(times.pipelined({&rows, 1}, 3), one + 2 * one / 3, 0.05 * one);
}

TEST(PassTime, ChunksReadAPromptInMoreTime) {
  const clusters::Cluster cluster = a100();
  const models::ModelSpec spec = spec_of(kPublishedModels[4]);
  const PassTimes times(spec, cluster, {});
  BatchLoad load{.batch = 4, .input = 1024, .output = 16};
  const BatchLatency whole = batch_latency(times, 1, load);
  for (const int64_t chunk : {64, 512, 1024, 2048}) {
    load.chunk = chunk;
    const BatchLatency cut = batch_latency(times, 1, load);
    EXPECT_GT(cut.prefill, whole.prefill) << chunk;
    EXPECT_EQ(cut.decode, whole.decode);
  }
  EXPECT_NEAR(whole.per_token(16) * 15, whole.decode, 1e-12);
}

TEST(PassTime, WhatCannotBePredictedIsSaid) {
  const clusters::Cluster cluster = a100();
  const models::ModelSpec gpt = spec_of(kPublishedModels[6]);
  const auto refusal = [&](const models::ModelSpec& spec, const Deployment& at) -> std::string {
    try {
      PassTimes(spec, cluster, at);
    } catch (const UserError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(gpt, {.products = clusters::ProductType::int8}),
              HasSubstr("nobody has measured"));
  EXPECT_THAT(refusal(gpt, {.tensor = 8, .pipeline = 4096}), HasSubstr("are more than the"));
  EXPECT_THAT(refusal(models::kT5.make({}, "t5"), {}), HasSubstr("from one stack of layers"));
  EXPECT_THAT(refusal(models::kBert.make({}, "bert"), {}), HasSubstr("bert is none"));
}

}  // namespace
}  // namespace megalith::serving_plan
