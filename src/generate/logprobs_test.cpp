// SPDX-License-Identifier: Apache-2.0
// Log-probabilities that are asked for: of the prompt as scoring gives them, of alternatives as
// they are defined, told in step with the text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generate/batch_testing.h"
#include "generate/generator.h"

namespace megalith::generate {
namespace {

using ::testing::HasSubstr;

struct Model {
  explicit Model(const models::ModelSpec& spec) : made(spec, *device, {.tensor_shards = 2}) {
    fill(made, *device);
  }
  inference::InferenceEngine& engine() { return made.engine(); }
  std::unique_ptr<device::Device> device = device::make_cpu_device(2);
  inference::InferenceModel made;
};

std::vector<int32_t> ids_of(int32_t first, size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i)
    ids[i] = static_cast<int32_t>((static_cast<size_t>(first) + i * i) % 50);
  return ids;
}

/// The log-probabilities of what may follow `ids`, most likely first, worked out plainly.
std::vector<Choice> sorted_after(inference::InferenceEngine& engine, std::span<const int32_t> ids) {
  auto [cache, begun] = engine.begin(ids, 1);
  const std::vector<float> logits = engine.extend(cache, begun);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<Choice> all;
  for (const float logit : logits)
    all.push_back({static_cast<int32_t>(all.size()), static_cast<double>(logit) - std::log(sum)});
  std::ranges::stable_sort(all, {}, [](const Choice& c) { return -c.logprob; });
  return all;
}

void expect_near(std::span<const Choice> mine, std::span<const Choice> plain, const char* what) {
  ASSERT_LE(mine.size(), plain.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(mine[i].id, plain[i].id) << what << " " << i;
    EXPECT_NEAR(mine[i].logprob, plain[i].logprob, 1e-12) << what << " " << i;
  }
}

class PromptLogprobs : public ::testing::TestWithParam<const char*> {};

/// In chunks, and behind a beginning that is known, which another request has read before.
TEST_P(PromptLogprobs, AreThoseOfScore) {
  Model model(spec_named(GetParam()));
  BatchGenerator generator(
      model.engine(), nullptr,
      {.limits = {4, 48, 16},
       .blocks = std::vector<int64_t>(inference::kv_groups(model.engine().spec()).size(), 40)});
  const std::vector<int32_t> ids = ids_of(3, 200);
  int64_t listed = 0;  // prompt tokens among the alternatives: one number in both places
  for (const size_t length : {200U, 199U, 130U, 2U, 1U}) {
    Generated result;
    Request request{.prompt = {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(length)}};
    request.options = {.max_new_tokens = 0, .top_logprobs = 4, .prompt_logprobs = true};
    request.on_end = [&](Generated end) { result = std::move(end); };
    ASSERT_TRUE(generator.submit(std::move(request)));
    while (generator.step()) {
    }
    const auto read = std::span<const int32_t>(ids).first(length);
    EXPECT_EQ(result.prompt_logprobs, model.engine().score(read)) << length;
    ASSERT_EQ(result.prompt_top_logprobs.size(), length - 1);
    EXPECT_EQ(result.finish_reason, "length");
    EXPECT_TRUE(result.ids.empty());
    for (size_t i = 1; i < std::min<size_t>(length, 9); ++i) {
      ASSERT_EQ(result.prompt_top_logprobs[i - 1].size(), 4U);
      std::vector<Choice> plain = sorted_after(model.engine(), read.first(i));
      const auto token = std::ranges::find(plain, ids[i], &Choice::id);
      EXPECT_NEAR(result.prompt_logprobs[i - 1], token->logprob, 1e-5) << i;
      token->logprob = result.prompt_logprobs[i - 1];
      expect_near(result.prompt_top_logprobs[i - 1], plain, "prompt");
    }
    for (size_t i = 1; i < length; ++i) {
      const std::vector<Choice>& choices = result.prompt_top_logprobs[i - 1];
      const auto token = std::ranges::find(choices, ids[i], &Choice::id);
      if (token == choices.end()) continue;
      EXPECT_EQ(token->logprob, result.prompt_logprobs[i - 1]) << length << " " << i;
      ++listed;
    }
  }
  EXPECT_GT(generator.blocks().kept(0), 0);
  EXPECT_GT(listed, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, PromptLogprobs,
                         ::testing::Values("llama", "gemma3_text", "gpt2", "qwen3"));

TEST(TopLogprobs, AreTheMostLikelyOfThePlainDistribution) {
  Model model(spec_named("llama"));
  const std::vector<int32_t> prompt = ids_of(5, 30);
  std::vector<TextToken> told;
  std::vector<std::vector<Choice>> alternatives;
  BatchGenerator generator(model.engine(), nullptr, {.limits = {4, 48, 16}, .blocks = {40}});
  Generated result;
  Request request{.prompt = prompt};
  request.options = {.max_new_tokens = 12, .top_logprobs = kMostLogprobs};
  request.options.sampling = {.temperature = 1.4, .seed = 5, .repetition_penalty = 1.3};
  request.on_token = [&](const TextToken& token) {
    told.push_back(token);
    alternatives.emplace_back(token.alternatives.begin(), token.alternatives.end());
  };
  request.on_end = [&](Generated end) { result = std::move(end); };
  generator.submit(std::move(request));
  while (generator.step()) {
  }
  ASSERT_EQ(result.ids.size(), 12U);
  EXPECT_EQ(alternatives, result.top_logprobs);
  std::vector<int32_t> ids = prompt;
  for (size_t i = 0; i < result.ids.size(); ++i) {
    EXPECT_EQ(told[i].choice, (Choice{result.ids[i], result.logprobs[i]}));
    ASSERT_EQ(result.top_logprobs[i].size(), static_cast<size_t>(kMostLogprobs));
    expect_near(result.top_logprobs[i], sorted_after(model.engine(), ids), "text");
    ids.push_back(result.ids[i]);
  }
}

TEST(MostLikelyTokens, TakesTheLowestOfEquals) {
  const std::vector<float> logits = {1, 3, 2, 3, 2, 9};
  std::vector<int32_t> ids;
  for (const Choice& choice : most_likely_tokens(logits, 3, 5)) ids.push_back(choice.id);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(most_likely_tokens(logits, 20, 5).size(), 5U);
}

TEST(Logprobs, AreRefusedWhereTheyMakeNoSense) {
  Model model(spec_named("t5"));
  const std::vector<int32_t> ids = ids_of(5, 30);
  try {
    generate(model.engine(), nullptr, ids, {.prompt_logprobs = true});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("an encoder reads"));
  }
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.top_logprobs = 21}), UserError);
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.top_logprobs = -1}), UserError);
  EXPECT_THROW(generate(model.engine(), nullptr, ids, {.min_tokens = -1}), UserError);
}

}  // namespace
}  // namespace megalith::generate
