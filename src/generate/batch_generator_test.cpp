// SPDX-License-Identifier: Apache-2.0
// What a request gets depends on nothing but itself: alone, in company, with few blocks, behind
// known beginnings, in passes of any length, on several ranks.
#include "generate/batch_generator.h"

#include <gtest/gtest.h>

#include "generate/batch_testing.h"
#include "generate/generator.h"

namespace megalith::generate {
namespace {

class BatchInvariance : public ::testing::TestWithParam<const char*> {};

TEST_P(BatchInvariance, ARequestDependsOnNothingButItself) {
  const models::ModelSpec spec = spec_named(GetParam());
  constexpr size_t kRequests = 24;
  const Outcome alone =
      run(spec, {.sequences = 1, .tokens = 512, .keeps = false, .at_once = false}, kRequests);
  int64_t tokens = 0;
  for (const Generated& result : alone.results) tokens += std::ssize(result.ids);
  EXPECT_GT(tokens, 100);
  expect_same(run(spec, {}, kRequests), alone, "at once");
  const Outcome cramped = run(spec, {.tokens = 40, .blocks = 4, .keeps = false}, kRequests);
  EXPECT_GT(cramped.preemptions, 0);
  expect_same(cramped, alone, "with few blocks");
  expect_same(run(spec, {.tokens = 40, .blocks = 4}, kRequests), alone, "with few blocks, kept");
  expect_same(run(spec, {.sequences = 24, .tokens = 24}, kRequests), alone, "in short passes");
  expect_same(run(spec, {.layout = {.tensor = 2}}, kRequests), alone, "two tensor ranks");
  expect_same(run(spec, {.layout = {.pipeline = 2}}, kRequests), alone, "two stages");
}

INSTANTIATE_TEST_SUITE_P(Families, BatchInvariance,
                         ::testing::Values("llama", "gemma3_text", "gpt2", "t5"));

// Blocks of a beginning are of one adapter alone.
TEST_P(BatchInvariance, WithAdaptersToo) {
  const models::ModelSpec spec = spec_named(GetParam());
  constexpr size_t kRequests = 18;
  const Outcome alone =
      run(spec, {.sequences = 1, .tokens = 512, .keeps = false, .at_once = false, .adapters = true},
          kRequests);
  const Outcome none =
      run(spec, {.sequences = 1, .tokens = 512, .keeps = false, .at_once = false}, kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    const bool is_adapted = i / 3 % 3 != 0;
    if (none.results[i].logprobs.empty()) continue;
    EXPECT_EQ(alone.results[i].logprobs != none.results[i].logprobs, is_adapted) << i;
  }
  expect_same(run(spec, {.adapters = true}, kRequests), alone, "at once");
  expect_same(run(spec, {.at_once = false, .adapters = true}, kRequests), alone, "in turn, kept");
  expect_same(run(spec, {.tokens = 40, .blocks = 4, .adapters = true}, kRequests), alone,
              "with few blocks, kept");
  expect_same(run(spec, {.layout = {.tensor = 2}, .adapters = true}, kRequests), alone,
              "two tensor ranks");
  expect_same(run(spec, {.layout = {.pipeline = 2}, .adapters = true}, kRequests), alone,
              "two stages");
}

TEST(BatchInvarianceOfMany, TwoHundredRequestsOfEveryKind) {
  const models::ModelSpec spec = spec_named("llama");
  constexpr size_t kRequests = 200;
  const auto outcome = [&](Circumstances setup) {
    setup.requests = mixed_requests;
    setup.draft_seed = 4;
    return run(spec, setup, kRequests);
  };
  const Outcome alone = outcome({.sequences = 4, .tokens = 512, .keeps = false, .at_once = false});
  expect_same(outcome({.sequences = 32, .tokens = 256, .blocks = 200}), alone, "at once");
  const Outcome cramped = outcome({.sequences = 16, .tokens = 40, .blocks = 13, .keeps = false});
  EXPECT_GT(cramped.preemptions, 0);
  expect_same(cramped, alone, "with few blocks");
  expect_same(outcome({.layout = {.tensor = 2}, .sequences = 16, .tokens = 128, .blocks = 100}),
              alone, "two tensor ranks");
  expect_same(outcome({.layout = {.pipeline = 2}, .sequences = 16, .tokens = 128, .blocks = 100}),
              alone, "two stages");
}

TEST(BatchGenerator, WritesWhatGenerateWrites) {
  const models::ModelSpec spec = spec_named("qwen3");
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  const Outcome outcome = run(spec, {}, 6);
  std::vector<Request> requests = requests_of(spec, 6);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generated result = generate(model.engine(), nullptr, std::move(requests[i]));
    EXPECT_EQ(result.ids, outcome.results[i].ids) << i;
    EXPECT_EQ(result.logprobs, outcome.results[i].logprobs) << i;
  }
}

TEST(BatchGenerator, CancelledRequestsLeaveNothing) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  BatchGenerator generator(model.engine(), nullptr,
                           {.limits = {4, 64, 16}, .blocks = {32}, .keeps_prefixes = false});
  std::vector<uint64_t> numbers;
  for (Request& request : requests_of(spec, 12)) {
    request.on_end = [](const Generated&) { FAIL() << "it was cancelled"; };
    request.options.max_new_tokens = 200;
    request.options.end_ids = {};
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 50));
    numbers.push_back(generator.submit(std::move(request)).value());
  }
  for (int i = 0; i < 5; ++i) generator.step();
  for (const uint64_t number : numbers) generator.cancel(number);
  generator.cancel(numbers.front());
  EXPECT_FALSE(generator.step());
  EXPECT_EQ(generator.blocks().in_use(0), 0);
  EXPECT_EQ(generator.scheduler().waiting(), 0);
}

TEST(BatchGenerator, RefusesWhatCannotBe) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  BatchGenerator generator(model.engine(), nullptr, {.limits = {1, 64, 1}, .blocks = {2}});
  const auto submit = [&](size_t prompt, int64_t more, double temperature = 0) {
    Request request;
    request.prompt.assign(prompt, 3);
    request.options.max_new_tokens = more;
    request.options.sampling.temperature = temperature;
    return generator.submit(std::move(request)).has_value();
  };
  EXPECT_THROW(submit(0, 1), UserError);
  EXPECT_THROW(submit(kContext + 1, 1), UserError);
  EXPECT_THROW(submit(100, 60), UserError);  // three blocks
  EXPECT_THROW(submit(10, -1), UserError);
  EXPECT_THROW(submit(10, 1, -1), UserError);
  EXPECT_TRUE(submit(100, 20));
  EXPECT_FALSE(submit(10, 1));  // the queue is full
}

}  // namespace
}  // namespace megalith::generate
