// SPDX-License-Identifier: Apache-2.0
// Reading text under any layout of tensor and pipeline ranks gives the bits of one rank: scores of
// a text, and logits while it is read through the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "comm/backends.h"
#include "inference/inference_model.h"
#include "testing/toy_model.h"

namespace megalith::inference {
namespace {

constexpr int64_t kTokens = 150;  // over two edges between blocks of keys

struct Reading {
  std::vector<double> scores;
  std::vector<std::vector<float>> logits;
  friend bool operator==(const Reading&, const Reading&) = default;
};

engine::Settings settings_named(std::string_view name) {
  engine::Settings s = name == "gpt2" ? testing::toy_settings()
                       : name == "t5" ? testing::toy_family_settings(models::kT5)
                                      : testing::toy_llama_settings();
  if (name == "grouped") testing::set_kv_heads(s.model, 2);  // of four tensor shards
  if (name == "whole_norms") {
    testing::set_kv_heads(s.model, 2);
    s.model.for_each_layer(
        [](layers::LayerSpec& layer) { layer.attention.qk_norm = layers::QkNorm::whole; });
  }
  s.model.context = kTokens;
  return s;
}

std::vector<int32_t> text() {
  std::vector<int32_t> ids(kTokens);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 7 + i / 5) % 50);
  return ids;
}

/// Weights from the seed, in the type that the set has.
void fill(parameters::ParameterSet& set, device::Device& device, uint64_t seed) {
  if (set.storage().compute == DType::f32) return set.initialise(device, seed);
  for (parameters::Parameter& parameter : set.all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, seed, DType::f32, values.data());
    const bool is_f16 = set.storage().compute == DType::f16;
    std::vector<uint16_t> narrow;
    for (const float value : values)
      narrow.push_back(is_f16 ? to_f16(value).bits : to_bf16(value).bits);
    device.wait(device.copy_to_device(parameter.mutable_compute(), narrow.data()));
  }
}

/// A reading on every rank of the layout; logits of the last stage.
std::vector<Reading> read(const engine::Settings& s, const parallel::Layout& layout, DType compute,
                          std::optional<DType> cache_dtype = {}) {
  std::vector<Reading> readings(static_cast<size_t>(layout.num_ranks()));
  comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    InferenceModel model(s.model, *device, world,
                         {.compute = compute,
                          .tensor_shards = s.split.tensor_shards,
                          .layout = layout,
                          .cache = cache_dtype});
    fill(model.parameters(), *device, s.seed);
    Reading& mine = readings[static_cast<size_t>(world.rank())];
    const std::vector<int32_t> ids = text();
    const bool reads = s.model.is_encoder_decoder();
    const auto read = std::span(ids).last(90);
    mine.scores = reads ? model.engine().score_target(read, std::span(ids).subspan(1))
                        : model.engine().score(ids);
    KvCache cache = model.engine().begin(reads ? read : std::span(ids).first(1), kTokens).cache;
    const auto extend = [&](size_t from, size_t count) {
      mine.logits.push_back(model.engine().extend(cache, std::span(ids).subspan(from, count)));
    };
    extend(0, 70);
    for (size_t i = 70; i < 76; ++i) extend(i, 1);
    extend(76, 74);
  });
  return readings;
}

class InferenceLayout
    : public ::testing::TestWithParam<std::tuple<const char*, DType, parallel::Layout>> {};

TEST_P(InferenceLayout, HasTheBitsOfOneRank) {
  const auto& [name, compute, layout] = GetParam();
  const engine::Settings s = settings_named(name);
  const Reading alone = read(s, {}, compute)[0];
  ASSERT_EQ(alone.scores.size(), static_cast<size_t>(kTokens - 1));
  ASSERT_EQ(alone.logits.front().size(), static_cast<size_t>(s.model.vocab));
  const std::vector<Reading> readings = read(s, layout, compute);
  for (int rank = 0; rank < layout.num_ranks(); ++rank) {
    const Reading& mine = readings[static_cast<size_t>(rank)];
    EXPECT_EQ(mine.scores, alone.scores) << "rank " << rank;
    if (parallel::coordinates_of(layout, rank).pipeline == layout.pipeline - 1) {
      EXPECT_EQ(mine.logits, alone.logits) << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, InferenceLayout,
    ::testing::Combine(::testing::Values("gpt2", "llama", "grouped", "whole_norms", "t5"),
                       ::testing::Values(DType::f32, DType::bf16, DType::f16),
                       ::testing::Values(parallel::Layout{.tensor = 2},
                                         parallel::Layout{.tensor = 4},
                                         parallel::Layout{.pipeline = 2},
                                         parallel::Layout{.pipeline = 3},
                                         parallel::Layout{.tensor = 2, .pipeline = 2})));

/// Keys and values that are kept rounded: scores, which keep none, are the same, logits near.
TEST(CacheType, RoundsWhatLaterTokensSeeUnderEveryLayoutAlike) {
  for (const char* name : {"llama", "gpt2", "t5"}) {
    const engine::Settings s = settings_named(name);
    const Reading wide = read(s, {}, DType::f32)[0];
    for (const DType cache : {DType::bf16, DType::f16, DType::i8}) {
      const Reading alone = read(s, {}, DType::f32, cache)[0];
      EXPECT_EQ(alone.scores, wide.scores);
      double worst = 0;
      for (size_t i = 0; i < wide.logits.size(); ++i)
        for (size_t v = 0; v < wide.logits[i].size(); ++v)
          worst = std::max(worst, std::abs(static_cast<double>(alone.logits[i][v]) -
                                           static_cast<double>(wide.logits[i][v])));
      EXPECT_GT(worst, 0) << name;
      EXPECT_LT(worst, 0.05) << name << " " << name_of(cache);
      for (const parallel::Layout& layout :
           {parallel::Layout{.tensor = 2}, parallel::Layout{.pipeline = 2}})
        EXPECT_EQ(read(s, layout, DType::f32, cache).back().logits, alone.logits) << name;
    }
  }
}

// What a decoder makes of a text token by token, with its caches, is what it makes of it at once.
TEST(EncoderDecoder, CachedLogitsAreThoseOfScores) {
  const engine::Settings s = settings_named("t5");
  const std::vector<int32_t> ids = text(), target(ids.rbegin(), ids.rend());
  const auto device = device::make_cpu_device(2);
  InferenceModel model(s.model, *device, {.tensor_shards = s.split.tensor_shards});
  fill(model.parameters(), *device, s.seed);
  const std::vector<double> scores = model.engine().score_target(ids, target);
  auto [cache, begin] = model.engine().begin(ids, kTokens);
  ASSERT_EQ(begin, std::vector<int32_t>{static_cast<int32_t>(s.model.decoder_start)});
  for (size_t i = 0; i + 1 < target.size(); ++i) {
    const std::vector<float> logits = model.engine().extend(
        cache, i == 0 ? std::span<const int32_t>(begin) : std::span(target).subspan(i - 1, 1));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto chosen = static_cast<size_t>(target[i]);
    EXPECT_NEAR(scores[i], static_cast<double>(logits[chosen]) - std::log(sum), 2e-6) << i;
  }
}

TEST(EncoderDecoder, RefusesWhatIsOfOneStack) {
  const engine::Settings s = settings_named("t5"), one = settings_named("gpt2");
  const std::vector<int32_t> ids = {1, 2};
  EXPECT_THROW(check_scorable(s.model, ids), UserError);
  EXPECT_THROW(check_target(one.model, ids, ids), UserError);
  EXPECT_THROW(check_target(s.model, {}, ids), UserError);
  EXPECT_NO_THROW(check_target(s.model, ids, {}));
  EXPECT_NO_THROW(require_one_stack(one.model, "perplexity"));
  EXPECT_THROW(require_one_stack(s.model, "perplexity"), UserError);
  const auto device = device::make_cpu_device(1);
  InferenceModel model(s.model, *device, {.tensor_shards = s.split.tensor_shards});
  EXPECT_THROW(model.engine().make_cache(4), UserError);
}

TEST(InferenceModel, RefusesALayoutThatDoesNotFit) {
  const engine::Settings s = settings_named("gpt2");
  const auto check = [&](const parallel::Layout& layout) {
    InferenceModel::check(s.model, {.tensor_shards = s.split.tensor_shards, .layout = layout},
                          "generate");
  };
  EXPECT_NO_THROW(check({.tensor = 2}));
  EXPECT_THROW(check({.tensor = 8}), UserError);
  EXPECT_THROW(check({.pipeline = 5}), UserError);
  EXPECT_THROW(check({.data = 2}), UserError);
}

}  // namespace
}  // namespace megalith::inference
