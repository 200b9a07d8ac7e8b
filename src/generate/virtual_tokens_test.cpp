// SPDX-License-Identifier: Apache-2.0
// Texts behind virtual tokens: what is chosen, told and guessed knows of the text alone, in any
// company.
#include <gtest/gtest.h>

#include "generate/batch_testing.h"
#include "generate/generator.h"
#include "testing/toy_adapter.h"

namespace megalith::generate {
namespace {

using Ids = std::vector<int32_t>;

class BehindVirtualTokens : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, BehindVirtualTokens,
                         ::testing::Values("llama", "gemma3_text", "gpt2"));

// Beside requests with factors, and with nothing.
TEST_P(BehindVirtualTokens, ARequestDependsOnNothingButItself) {
  const models::ModelSpec spec = spec_named(GetParam());
  constexpr size_t kRequests = 18;
  const Circumstances one{.sequences = 1, .tokens = 512, .keeps = false, .at_once = false};
  const auto outcome = [&](Circumstances setup) {
    setup.adapters = setup.prompts = true;
    return run(spec, setup, kRequests);
  };
  const Outcome alone = outcome(one), none = run(spec, one, kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    if (none.results[i].logprobs.empty()) continue;
    EXPECT_EQ(alone.results[i].logprobs != none.results[i].logprobs, i / 3 % 3 != 0) << i;
  }
  expect_same(outcome({}), alone, "at once");
  expect_same(outcome({.at_once = false}), alone, "in turn, kept");
  expect_same(outcome({.tokens = 40, .blocks = 4}), alone, "with few blocks, kept");
  expect_same(outcome({.sequences = 24, .tokens = 24}), alone, "in short passes");
  expect_same(outcome({.layout = {.tensor = 2}}), alone, "two tensor ranks");
  expect_same(outcome({.layout = {.pipeline = 2}}), alone, "two stages");
}

TEST_P(BehindVirtualTokens, GuessesAndSearchesToo) {
  const models::ModelSpec spec = spec_named(GetParam());
  constexpr size_t kRequests = 32;
  const auto outcome = [&](Circumstances setup) {
    setup.adapters = setup.prompts = true;
    setup.requests = mixed_requests;
    setup.draft_seed = 4;
    return run(spec, setup, kRequests);
  };
  const Outcome alone = outcome({.sequences = 4, .tokens = 512, .keeps = false, .at_once = false});
  expect_same(outcome({.sequences = 16, .tokens = 256, .blocks = 200}), alone, "at once");
  expect_same(outcome({.sequences = 16, .tokens = 40, .blocks = 13}), alone, "with few blocks");
}

struct Model {
  explicit Model(const models::ModelSpec& spec)
      : device(device::make_cpu_device(1)), model(spec, *device, {.tensor_shards = 2}) {
    fill(model, *device);
  }
  Generated write(Request request) { return generate(model.engine(), nullptr, std::move(request)); }
  std::unique_ptr<device::Device> device;
  inference::InferenceModel model;
};

/// Inside a text too; what is told is of the others.
TEST_P(BehindVirtualTokens, InATextTheyAreTheTokensWhoseRowsTheyHave) {
  Model m(spec_named(GetParam()));
  const auto vocab = static_cast<int32_t>(m.model.spec().vocab);
  const Ids rows = {7, 30, 11}, both = {5, 7, 30, 1, 17, 11, 8};
  const Ids marked = {5, vocab, vocab + 1, 1, 17, vocab + 2, 8};
  const auto adapter =
      testing::prompt_of_tokens(m.model.spec(), m.model.parameters(), *m.device, rows, true);
  GenerateOptions options{.max_new_tokens = 30, .top_logprobs = 2};
  options.sampling.temperature = 0;
  const Generated expected = m.write({.prompt = both, .options = options});
  const std::vector<double> scores = m.model.engine().score(both);
  EXPECT_THROW(m.write({.prompt = marked, .options = options}), UserError);
  m.model.engine().model().set_adapter(adapter.get());
  const Generated mine = m.write({.prompt = marked, .options = options});
  EXPECT_EQ(mine.ids, expected.ids);
  EXPECT_EQ(mine.logprobs, expected.logprobs);
  EXPECT_EQ(mine.top_logprobs, expected.top_logprobs);
  EXPECT_EQ(m.model.engine().score(marked), (std::vector{scores[2], scores[3], scores[5]}));
  // A text's first token is told of none, whatever virtual ones stand before it.
  EXPECT_EQ(m.model.engine().score(std::span(marked).subspan(1)).size(), 2u);
  Ids beyond = marked;
  beyond.back() = vocab + 3;
  EXPECT_THROW(m.write({.prompt = beyond, .options = options}), UserError);
  EXPECT_THROW(m.model.engine().score(beyond), UserError);
  options.lookup = 5;
  EXPECT_EQ(m.write({.prompt = marked, .options = options}).ids, expected.ids);
  options.prompt_logprobs = true;
  EXPECT_THROW(m.write({.prompt = marked, .options = options}), UserError);
}

/// With the rows of tokens they are these tokens, but for what looks at what was said before. More
/// than a block of them.
TEST_P(BehindVirtualTokens, TheTextIsThatBehindTheTokensWhoseRowsTheyAre) {
  Model m(spec_named(GetParam()));
  const Ids prompt = {5, 1, 17, 5, 8};
  constexpr int32_t kBefore = 70;
  Ids before;
  for (int32_t i = 0; i < kBefore; ++i) before.push_back((i * i + 9) % 50);
  Ids both = before;
  both.insert(both.end(), prompt.begin(), prompt.end());
  const auto adapter =
      testing::prompt_of_tokens(m.model.spec(), m.model.parameters(), *m.device, before);
  GenerateOptions options{.max_new_tokens = 30, .top_logprobs = 2, .prompt_logprobs = true};
  options.sampling.temperature = 0;
  const Generated expected = m.write({.prompt = both, .options = options});
  m.model.engine().model().set_adapter(adapter.get());
  const Generated mine = m.write({.prompt = prompt, .options = options});
  EXPECT_EQ(mine.ids, expected.ids);
  EXPECT_EQ(mine.logprobs, expected.logprobs);
  EXPECT_EQ(mine.top_logprobs, expected.top_logprobs);
  EXPECT_EQ(mine.prompt_logprobs, m.model.engine().score(prompt));
  EXPECT_EQ(mine.prompt_logprobs, std::vector(expected.prompt_logprobs.begin() + kBefore,
                                              expected.prompt_logprobs.end()));
  ASSERT_EQ(mine.prompt_top_logprobs.size(), prompt.size() - 1);
  EXPECT_EQ(mine.prompt_top_logprobs, std::vector(expected.prompt_top_logprobs.begin() + kBefore,
                                                  expected.prompt_top_logprobs.end()));
  // In passes of three tokens; the second time the first block, of virtual tokens alone, is known.
  m.model.engine().model().set_adapter(nullptr);
  BatchGenerator generator(
      m.model.engine(), nullptr,
      {.limits = {2, 3, 4},
       .blocks = std::vector<int64_t>(inference::kv_groups(m.model.spec()).size(), 8)});
  for (int turn = 0; turn < 2; ++turn) {
    Generated result;
    Request request{.prompt = prompt, .options = options};
    request.adapter = {{adapter.get(), [](const layers::Adapter*) {}}, 1};
    request.on_end = [&](Generated end) { result = std::move(end); };
    ASSERT_TRUE(generator.submit(std::move(request)));
    while (generator.step()) {
    }
    EXPECT_EQ(generator.scheduler().prefix_hits(), turn * BlockStore::kBlock);
    EXPECT_EQ(result.ids, expected.ids);
    EXPECT_EQ(result.prompt_logprobs, mine.prompt_logprobs);
    EXPECT_EQ(result.prompt_top_logprobs, mine.prompt_top_logprobs);
  }
}

/// Before what an encoder reads they are the tokens whose rows they are, alone and in a batch.
TEST(BehindVirtualTokensAlone, AnEncoderReadsThemBeforeThePrompt) {
  Model m(spec_named("t5"));
  const Ids before = {9, 4, 31}, prompt = {5, 1, 17, 5, 8};
  Ids both = before;
  both.insert(both.end(), prompt.begin(), prompt.end());
  const auto adapter =
      testing::prompt_of_tokens(m.model.spec(), m.model.parameters(), *m.device, before);
  GenerateOptions options{.max_new_tokens = 12, .top_logprobs = 2};
  options.sampling = {.temperature = 0.9, .seed = 6, .repetition_penalty = 1.3};
  const Generated expected = m.write({.prompt = both, .options = options});
  const Generated without = m.write({.prompt = prompt, .options = options});
  EXPECT_NE(without.logprobs, expected.logprobs);
  m.model.engine().model().set_adapter(adapter.get());
  const Generated mine = m.write({.prompt = prompt, .options = options});
  EXPECT_EQ(mine.ids, expected.ids);
  EXPECT_EQ(mine.top_logprobs, expected.top_logprobs);
  m.model.engine().model().set_adapter(nullptr);
  BatchGenerator generator(
      m.model.engine(), nullptr,
      {.limits = {4, 8, 4},
       .blocks = std::vector<int64_t>(inference::kv_groups(m.model.spec()).size(), 16)});
  std::vector<Generated> results(2);
  for (size_t i = 0; i < 2; ++i) {
    Request request{.prompt = prompt, .options = options};
    if (i == 1) request.adapter = {{adapter.get(), [](const layers::Adapter*) {}}, 1};
    request.on_end = [&, i](Generated end) { results[i] = std::move(end); };
    ASSERT_TRUE(generator.submit(std::move(request)));
  }
  while (generator.step()) {
  }
  EXPECT_EQ(results[0].logprobs, without.logprobs);
  EXPECT_EQ(results[1].logprobs, expected.logprobs);
}

/// Draws are by the place in the text, penalties and bans of what it says; and these are what they
/// would be of one written by hand behind each pass.
TEST(BehindVirtualTokensAlone, WhatWasSaidBeforeIsTheText) {
  Model m(spec_named("llama"));
  const Ids prompt = {5, 1, 17, 5, 8};
  const auto adapter = testing::toy_prompt_adapter(m.model.parameters(), *m.device, 1);
  m.model.engine().model().set_adapter(adapter.get());
  GenerateOptions options{.max_new_tokens = 20};
  options.sampling = {.temperature = 0.9,
                      .seed = 6,
                      .repetition_penalty = 1.4,
                      .frequency_penalty = 0.3,
                      .no_repeat_ngram = 2};
  const Generated mine = m.write({.prompt = prompt, .options = options});
  Ids ids = prompt;
  inference::KvCache cache = m.model.engine().make_cache(25);
  std::vector<float> logits = m.model.engine().extend(cache, ids);
  for (int i = 0; i < 20; ++i) {
    ids.push_back(choose_token(logits, options.sampling, {ids, prompt.size()}).id);
    logits = m.model.engine().extend(cache, std::span(ids).last(1));
  }
  EXPECT_EQ(mine.ids, Ids(ids.begin() + 5, ids.end()));
  // A look-up knows the text alone, and changes nothing.
  options.lookup = 5;
  EXPECT_EQ(m.write({.prompt = prompt, .options = options}).ids, mine.ids);
}

TEST(BehindVirtualTokensAlone, TheContextEndsWhereItEnds) {
  Model m(spec_named("gpt2"));
  const auto adapter = testing::toy_prompt_adapter(m.model.parameters(), *m.device, 1);
  m.model.engine().model().set_adapter(adapter.get());
  GenerateOptions options{.max_new_tokens = 1000};
  options.sampling.temperature = 0;
  const Generated whole = m.write({.prompt = Ids(kContext - 5, 3), .options = options});
  EXPECT_EQ(whole.ids.size(), 1u);
  EXPECT_EQ(m.write({.prompt = Ids(kContext - 8, 3), .options = options}).ids.size(), 4u);
  EXPECT_EQ(whole.finish_reason, "length");
  EXPECT_THROW(m.write({.prompt = Ids(kContext - 4, 3), .options = options}), UserError);
}

}  // namespace
}  // namespace megalith::generate
