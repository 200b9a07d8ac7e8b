// SPDX-License-Identifier: Apache-2.0
#include "preferences/preference_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/backends.h"
#include "testing/toy_run.h"

namespace megalith::tune {
namespace {

using data::HostBatch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Example learned_behind(std::vector<int32_t> ids, size_t prompt) {
  Example made{std::move(ids), {}};
  made.learned.assign(made.ids.size(), 1);
  std::fill_n(made.learned.begin(), prompt, 0);
  return made;
}
Preference pair(std::vector<int32_t> chosen, std::vector<int32_t> rejected, size_t prompt) {
  return {learned_behind(std::move(chosen), prompt), learned_behind(std::move(rejected), prompt)};
}
HostBatch filled(const PreferenceSource& source, int64_t first, int64_t count) {
  HostBatch batch;
  source.fill(first, count, batch);
  return batch;
}

TEST(PreferenceSource, PacksWholePairsSideBySide) {
  const PreferenceSource source({pair({1, 2, 3, 4}, {1, 2, 5}, 2), pair({6, 7}, {6, 8, 9}, 1)},
                                {.sequence_length = 10, .vocab_size = 10, .shuffle = false});
  EXPECT_EQ(source.samples_per_epoch(), 1);
  EXPECT_EQ(source.num_tokens(), 8);
  EXPECT_EQ(source.num_learned(), 6);
  EXPECT_EQ(source.most_learned(), 6);
  source.reference().set({-1, -2, -3, -4});
  const HostBatch batch = filled(source, 3, 1);
  EXPECT_THAT(batch.ids_T, ElementsAre(1, 2, 3, 1, 2, 6, 6, 8, 0, 0));
  EXPECT_THAT(batch.targets_T, ElementsAre(-1, 3, 4, -1, 5, 7, 8, 9, -1, -1));
  EXPECT_THAT(batch.position_T, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1, 0, 1));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 3, 5, 6, 8, 10));
  EXPECT_THAT(batch.sequence_sample, ElementsAre(3, 3, 3, 3, 3));
  EXPECT_THAT(batch.compared_rows, ElementsAre(0, 3, 5, 5, 6, 8));
  EXPECT_THAT(batch.target_numbers, ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(batch.loss_weight_T, ElementsAre(1, 1));
  EXPECT_EQ(batch.total_weight, 2);
}

/// However pairs are moved, their numbers go with them.
TEST(PreferenceSource, ThePairsOfASampleHaveTheirReference) {
  std::vector<Preference> pairs;
  std::vector<float> reference;
  for (int32_t i = 0; i < 20; ++i) {
    pairs.push_back(pair({i, i, i}, {i, i, i, i}, 1));
    reference.push_back(static_cast<float>(i));
    reference.push_back(static_cast<float>(-i));
  }
  const PreferenceSource source(pairs, {.sequence_length = 11, .vocab_size = 20, .seed = 1});
  source.reference().set(reference);
  ASSERT_EQ(source.samples_per_epoch(), 10);
  std::set<int32_t> seen;
  const HostBatch batch = filled(source, 10, 10);
  for (int64_t p = 0; p < batch.num_compared(); ++p) {
    const auto at = static_cast<size_t>(p);
    const int32_t id = batch.ids_T[static_cast<size_t>(batch.compared_rows[3 * at])];
    EXPECT_EQ(batch.target_numbers[2 * at], static_cast<float>(id));
    EXPECT_EQ(batch.target_numbers[2 * at + 1], static_cast<float>(-id));
    EXPECT_EQ(source.pairs_of(10 + p / 2)[at % 2], id);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 20u);
}

TEST(PreferenceSource, TheFingerprintIsOfEveryTokenAndWeight) {
  const auto print = [](std::vector<Preference> pairs) {
    return PreferenceSource(std::move(pairs), {.sequence_length = 8, .vocab_size = 10})
        .fingerprint({});
  };
  const auto base = print({pair({1, 2, 3}, {1, 4}, 1)});
  EXPECT_EQ(base, print({pair({1, 2, 3}, {1, 4}, 1)}));
  EXPECT_NE(base, print({pair({1, 4}, {1, 2, 3}, 1)}));
  EXPECT_NE(base, print({pair({1, 2, 3}, {1, 5}, 1)}));
  EXPECT_NE(base, print({pair({1, 2, 3}, {1, 4}, 0)}));
}

TEST(PreferenceSource, IdsThatTheModelHasNotAreRefused) {
  try {
    PreferenceSource({pair({1, 2}, {1, 10}, 1)}, {.sequence_length = 8, .vocab_size = 10});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("makes id 10, and the model has 10 tokens"));
  }
}

TEST(ReferenceTable, IsSetOnceForAllRanks) {
  ReferenceTable table;
  table.set({1, 2});
  table.set({1, 2});
  EXPECT_THAT(table.values(), ElementsAre(1, 2));
  EXPECT_THROW(table.set({1, 3}), InternalError);
}

/// The losses of pairs, what is told of them, the norm of the gradient and the weights behind a
/// step.
struct Result {
  std::vector<std::vector<double>> pairs;  // all numbers of each, in order
  double norm = 0;
  std::map<std::string, std::vector<float>> weights;
};
Result result_of(const engine::Settings& settings, std::span<const HostBatch> micro_batches) {
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  engine::Engine engine(settings, *device, mesh);
  engine.initialise();
  double weight = 0;
  for (const HostBatch& batch : micro_batches) weight += batch.total_weight;
  Result result;
  const std::vector<double> values = engine.replay(1, micro_batches, weight, [](auto, auto) {});
  size_t begin = 0;
  for (const HostBatch& batch : micro_batches) {
    const auto units = static_cast<size_t>(engine.losses().units(batch));
    for (size_t p = 0; p < static_cast<size_t>(batch.num_compared()); ++p) {
      std::vector<double>& numbers = result.pairs.emplace_back();
      for (size_t k = 0; k <= std::size(layers::kToldOfPairs); ++k)
        numbers.push_back(values[begin + k * units + p]);
    }
    begin += static_cast<size_t>(engine.losses().count(batch));
  }
  result.norm = engine.step(1, 0.01, micro_batches, weight).grad_norm;
  for (const auto& parameter : engine.parameters().all()) {
    const auto* data = parameter.master().as<float>();
    result.weights[parameter.name()].assign(data, data + parameter.local_elements());
  }
  return result;
}

/// All of that is that of the pairs alone, one a sample, in the same order.
class PackedPairs : public ::testing::TestWithParam<bool> {};

TEST_P(PackedPairs, AreThePairsAloneToTheBit) {
  engine::Settings settings = GetParam() ? testing::toy_llama_settings() : testing::toy_settings();
  settings.ragged = true;
  settings.preferences.emplace();
  settings.model.dropout = 0;
  settings.split = {1, 1};  // one shard: else token shards cut a sample in other places
  settings.micro_batch = 1;
  const int64_t length = settings.sequence_length(), vocab = settings.model.vocab;
  std::vector<Preference> pairs;
  std::vector<float> reference;
  for (int32_t i = 0; i < 3; ++i) {
    const auto ids = [&](int32_t count, int32_t step) {
      std::vector<int32_t> made{3 * i};
      for (int32_t t = 1; t < count; ++t)
        made.push_back(static_cast<int32_t>((step * t + 5 * i + 1) % vocab));
      return made;
    };
    pairs.push_back(pair(ids(3 + i, 7), ids(4 - i, 11), 1));
    reference.push_back(-3.5f * static_cast<float>(i));
    reference.push_back(-4.25f);
  }
  const auto source = [&](size_t begin, size_t count) {
    const auto some = std::span(pairs).subspan(begin, count);
    auto made = std::make_unique<PreferenceSource>(
        std::vector<Preference>(some.begin(), some.end()),
        ExampleSourceOptions{.sequence_length = length, .vocab_size = vocab, .shuffle = false});
    const auto numbers = std::span(reference).subspan(2 * begin, 2 * count);
    made->reference().set({numbers.begin(), numbers.end()});
    return made;
  };
  const auto together = source(0, 3);
  ASSERT_EQ(together->samples_per_epoch(), 1);
  settings.batch.full = 1;
  const std::vector<HostBatch> packed = {filled(*together, 0, 1)};
  std::vector<HostBatch> alone;
  for (size_t i = 0; i < pairs.size(); ++i) alone.push_back(filled(*source(i, 1), 0, 1));
  const Result a = result_of(settings, packed);
  settings.batch.full = 3;
  const Result b = result_of(settings, alone);
  EXPECT_EQ(a.pairs, b.pairs);
  EXPECT_EQ(a.pairs.size(), 3u);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_EQ(a.weights, b.weights);
  // The head may compute the rows that are learned alone: the bits are the same.
  settings.batch.full = 1;
  settings.predicted_per_sample = together->most_learned();
  const Result c = result_of(settings, packed);
  EXPECT_EQ(c.pairs, a.pairs);
  EXPECT_EQ(c.norm, a.norm);
}

INSTANTIATE_TEST_SUITE_P(All, PackedPairs, ::testing::Bool());

}  // namespace
}  // namespace megalith::tune
