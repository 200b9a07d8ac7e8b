// SPDX-License-Identifier: Apache-2.0
// What is scored together has the bits of what is scored alone, in one pass without blocks.
#include "evaluate/continuation_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/error.h"
#include "comm/backends.h"
#include "inference/inference_model.h"
#include "testing/toy_adapter.h"
#include "testing/toy_model.h"

namespace megalith::evaluate {
namespace {

constexpr int64_t kContext = 256;

models::ModelSpec spec_named(std::string_view family) {
  models::ModelSpec spec = testing::toy_family_settings(models::family_named(family, "test")).model;
  spec.context = kContext;
  spec.dropout = 0;
  return spec;
}

void fill(inference::InferenceModel& model, device::Device& device) {
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    for (float& value : values) value *= 3;  // so that what comes next is not all alike
    device.wait(device.copy_to_device(parameter.mutable_compute(), values.data()));
  }
}

/// Documents of one to five questions: some begin alike, some all have the same examples in front,
/// some are one token long, some fill the context and a token more.
std::vector<std::vector<ScoredIds>> documents() {
  std::mt19937 random(5);
  const auto some = [&](size_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 50);
    return ids;
  };
  const std::vector<int32_t> examples = some(140);
  std::vector<std::vector<ScoredIds>> all(24);
  for (size_t d = 0; d < all.size(); ++d) {
    std::vector<int32_t> context = some(1 + random() % 60);
    if (d % 3 == 0) context.insert(context.begin(), examples.begin(), examples.end());
    if (d == 7) context = some(256);
    for (size_t q = 0; q < 1 + d % 5; ++q) {
      ScoredIds& one = all[d].emplace_back();
      const size_t room = kContext + 1 - context.size();
      const std::vector<int32_t> more = some(std::min(room, size_t{1} + random() % 12));
      one.ids = context;
      if (d % 4 == 3 && q == 1) one.ids = some(context.size());  // nothing alike
      one.ids.insert(one.ids.end(), more.begin(), more.end());
      one.scored = one.tokens = std::ssize(more);
    }
  }
  return all;
}

ScoredAnswer alone(inference::InferenceEngine& engine, const ScoredIds& asked) {
  // As many ids as the model reads, and one that is only predicted: score() reads one less.
  std::vector<double> logprobs;
  auto [cache, begun] = engine.begin(std::span(asked.ids).first(1), kContext - 1);
  ScoredAnswer answer{0, true};
  for (size_t i = 0; i + 1 < asked.ids.size(); ++i) {
    const std::vector<float> logits = engine.extend(cache, std::span(asked.ids).subspan(i, 1));
    if (std::cmp_less(i + 1, std::ssize(asked.ids) - asked.scored)) continue;
    const auto best = std::ranges::max_element(logits) - logits.begin();
    answer.is_greedy = answer.is_greedy && best == asked.ids[i + 1];
  }
  if (std::ssize(asked.ids) <= engine.context()) {
    logprobs = engine.score(asked.ids);
    for (size_t i = logprobs.size() - static_cast<size_t>(asked.scored); i < logprobs.size(); ++i)
      answer.logprob += logprobs[i];
  }
  return answer;
}

class ScorerOf : public ::testing::TestWithParam<const char*> {};

TEST_P(ScorerOf, GivesTheBitsOfEachAlone) {
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec_named(GetParam()), *device, {.tensor_shards = 2});
  fill(model, *device);
  std::vector<std::vector<ScoredIds>> asked = documents();
  // What the model would say is asked too.
  for (size_t d = 0; d < asked.size(); d += 4) {
    ScoredIds& one = asked[d].back();
    if (std::ssize(one.ids) > kContext) continue;
    one.ids.resize(one.ids.size() - static_cast<size_t>(one.scored));
    auto [cache, begun] = model.engine().begin(one.ids, 3);
    std::vector<int32_t> next = one.ids;
    for (one.scored = 0; one.scored < 2; ++one.scored) {
      const std::vector<float> logits = model.engine().extend(cache, next);
      next = {static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
      one.ids.push_back(next[0]);
    }
  }
  ContinuationScorer scorer(model.engine(), kContext + 1, true);
  std::vector<int64_t> told;
  const auto answers = scorer.score(asked, [&](int64_t done) { told.push_back(done); });
  ASSERT_EQ(answers.size(), asked.size());
  int64_t greedy = 0;
  for (size_t d = 0; d < asked.size(); ++d) {
    ASSERT_EQ(answers[d].size(), asked[d].size());
    for (size_t q = 0; q < asked[d].size(); ++q) {
      const ScoredAnswer wanted = alone(model.engine(), asked[d][q]);
      if (std::ssize(asked[d][q].ids) <= kContext) {
        EXPECT_EQ(answers[d][q].logprob, wanted.logprob) << d << " " << q;
      }
      EXPECT_EQ(answers[d][q].is_greedy, wanted.is_greedy) << d << " " << q;
      greedy += answers[d][q].is_greedy ? 1 : 0;
    }
  }
  EXPECT_GE(greedy, 5);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), 24);
}

TEST_P(ScorerOf, BehindVirtualTokensToo) {
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(spec_named(GetParam()), *device, {.tensor_shards = 2});
  fill(model, *device);
  const auto adapter = testing::toy_prompt_adapter(model.parameters(), *device, 1);
  const auto without = ContinuationScorer(model.engine(), kContext + 1, false).score(documents());
  model.engine().model().set_adapter(adapter.get());
  std::vector<std::vector<ScoredIds>> asked = documents();
  const int64_t most = model.engine().context() + 1;
  for (std::vector<ScoredIds>& document : asked)
    for (ScoredIds& one : document)
      one.ids.erase(one.ids.begin(),
                    one.ids.begin() + std::max<int64_t>(std::ssize(one.ids) - most, 0));
  const auto answers = ContinuationScorer(model.engine(), most, true).score(asked);
  for (size_t d = 0; d < asked.size(); ++d) {
    for (size_t q = 0; q < asked[d].size(); ++q) {
      const ScoredAnswer wanted = alone(model.engine(), asked[d][q]);
      if (std::ssize(asked[d][q].ids) < most) {
        EXPECT_EQ(answers[d][q].logprob, wanted.logprob) << d << " " << q;
        EXPECT_NE(answers[d][q].logprob, without[d][q].logprob) << d << " " << q;
      }
      EXPECT_EQ(answers[d][q].is_greedy, wanted.is_greedy) << d << " " << q;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ScorerOf,
                         ::testing::Values("llama", "gemma3_text", "gpt2", "qwen3", "phi3"));

TEST(ContinuationScorer, OfAllRanksGivesTheSame) {
  const models::ModelSpec spec = spec_named("llama");
  const std::vector<std::vector<ScoredIds>> asked = documents();
  std::vector<std::vector<ScoredAnswer>> first;
  for (const parallel::Layout layout :
       {parallel::Layout{}, {.tensor = 2}, {.pipeline = 2}, {.tensor = 2, .pipeline = 2}}) {
    comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      inference::InferenceModel model(spec, *device, world, {.tensor_shards = 2, .layout = layout});
      fill(model, *device);
      ContinuationScorer scorer(model.engine(), kContext + 1, true);
      const auto answers = scorer.score(asked);
      if (layout.num_ranks() == 1) first = answers;
      for (size_t d = 0; d < asked.size(); ++d) {
        for (size_t q = 0; q < asked[d].size(); ++q) {
          EXPECT_EQ(answers[d][q].logprob, first[d][q].logprob) << d << " " << q;
          EXPECT_EQ(answers[d][q].is_greedy, first[d][q].is_greedy) << d << " " << q;
        }
      }
    });
  }
}

TEST(ContinuationScorer, IsForModelsOfOneStack) {
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(spec_named("t5"), *device, {.tensor_shards = 2});
  EXPECT_THROW(ContinuationScorer(model.engine(), 8, false), UserError);
}

}  // namespace
}  // namespace megalith::evaluate
