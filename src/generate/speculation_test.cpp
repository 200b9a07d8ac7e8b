// SPDX-License-Identifier: Apache-2.0
// Guesses change nothing but the number of passes: not the tokens, drawn ones neither, not the
// log-probabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "generate/batch_testing.h"
#include "generate/generator.h"
#include "generate/look_up.h"

namespace megalith::generate {
namespace {

constexpr size_t kRequests = 20;

Speculated speculated(const Outcome& outcome) {
  Speculated sum;
  for (const Generated& result : outcome.results) {
    sum.guesses += result.speculated.guesses;
    sum.right += result.speculated.right;
  }
  return sum;
}

class Speculation : public ::testing::TestWithParam<const char*> {};

TEST_P(Speculation, WritesTheSameWithGuesses) {
  const models::ModelSpec spec = spec_named(GetParam());
  const Outcome plain = run(spec, {}, kRequests);
  EXPECT_EQ(speculated(plain).guesses, 0);
  const auto same = [&](const Circumstances& setup, const char* what) {
    const Outcome mine = run(spec, setup, kRequests);
    expect_same(mine, plain, what);
    const auto [guesses, right] = speculated(mine);
    EXPECT_GT(right, 20) << what;
    EXPECT_LE(right, guesses) << what;
  };
  same({.requests = guessed_requests}, "looked up");
  same({.tokens = 40, .blocks = 5, .keeps = false, .requests = guessed_requests}, "few blocks");
  same({.layout = {.tensor = 2}, .requests = guessed_requests}, "two tensor ranks");
  same({.layout = {.pipeline = 2}, .requests = guessed_requests}, "two stages");
  if (spec.is_encoder_decoder()) return;
  same({.requests = drafted_requests, .draft_seed = 4}, "another model's");
  same({.tokens = 40, .blocks = 5, .requests = drafted_requests, .draft_seed = 3},
       "its own, few blocks");
  same({.layout = {.pipeline = 2}, .requests = drafted_requests, .draft_seed = 3}, "on stages");
}

INSTANTIATE_TEST_SUITE_P(Families, Speculation,
                         ::testing::Values("llama", "gemma3_text", "gpt2", "t5"));

/// A draft with the model's own weights is always right: a pass writes all it may.
TEST(Draft, OfTheSameWeightsIsAlwaysRight) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  for (const double temperature : {0.0, 1.0}) {
    Request request{.prompt = {1, 2, 3, 4}};
    request.options = {.max_new_tokens = 60, .draft = 4};
    request.options.sampling = {.temperature = temperature, .seed = 2};
    const Generated result = generate(model.engine(), nullptr, std::move(request), &model.engine());
    EXPECT_EQ(result.ids.size(), 60U);
    EXPECT_EQ(result.speculated.guesses, result.speculated.right);
    EXPECT_GE(result.speculated.right, 47);
  }
}

/// Whatever the text has become since: what it guesses is what its model would write.
TEST(Draft, IsAsGoodAsItsModel) {
  for (const char* family : {"llama", "gemma3_text"}) {
    const models::ModelSpec spec = spec_named(family);
    const auto device = device::make_cpu_device(2);
    inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
    fill(model, *device);
    const SamplingOptions greedy{.temperature = 0};
    Draft draft(model.engine(), std::vector<int64_t>(inference::kv_groups(spec).size(), 6), 100);
    std::mt19937 random(2);
    std::vector<int32_t> ids = {1, 2, 3};
    for (int n = 0; n < 40; ++n) {
      std::vector<int32_t> guesses, expected;
      const Draft::Asked asked{1, ids, 3, 3, kContext, &greedy, &guesses};
      draft.guess(std::span(&asked, 1));
      auto [cache, next] = model.engine().begin(ids, 3);
      for (int i = 0; i < 3; ++i) {
        expected.push_back(choose_token(model.engine().extend(cache, next), greedy, {ids, 3}).id);
        next = {expected.back()};
      }
      EXPECT_EQ(guesses, expected) << family << " " << n;
      const size_t right = random() % 4;
      ids.insert(ids.end(), guesses.begin(), guesses.begin() + static_cast<ptrdiff_t>(right));
      for (size_t more = random() % 3; more > 0; --more)
        ids.push_back(static_cast<int32_t>(random() % 50));
    }
  }
}

TEST(Speculation, IsRefusedWhereItCannotBe) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  const std::vector<int32_t> ids = {1, 2, 3};
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.draft = 4}), UserError);  // no draft
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.lookup = 4, .draft = 4}), UserError);
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.lookup = -1}), UserError);
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.lookup = 65}), UserError);
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.lookup = 2, .beams = 2}), UserError);
}

TEST(LookUp, FindsWhatFollowedTheLongestRunLast) {
  using Ids = std::vector<int32_t>;
  const auto found = [](const Ids& ids, int64_t count) { return look_up_continuation(ids, count); };
  EXPECT_EQ(found({1, 2, 3, 9, 1, 2, 3}, 2), (Ids{9, 1}));
  EXPECT_EQ(found({1, 2, 3, 9, 1, 2, 3}, 20), (Ids{9, 1, 2, 3}));
  EXPECT_EQ(found({1, 2, 3, 9, 8, 2, 3, 7, 1, 2, 3}, 1), (Ids{9}));  // a longer run, earlier
  EXPECT_EQ(found({2, 3, 9, 2, 3, 7, 2, 3}, 1), (Ids{7}));           // the last time
  EXPECT_EQ(found({5, 5, 5}, 3), (Ids{5}));
  EXPECT_EQ(found({1, 2, 3}, 3), Ids());
  EXPECT_EQ(found({3, 1, 3}, 3), Ids());  // one token is too little
  EXPECT_EQ(found({1, 2, 1, 2}, 0), Ids());
  EXPECT_EQ(found({1}, 5), Ids());
}

}  // namespace
}  // namespace megalith::generate
