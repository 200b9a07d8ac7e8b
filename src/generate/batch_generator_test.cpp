// SPDX-License-Identifier: Apache-2.0
// What a request gets depends on nothing but itself: alone, in company, with few blocks, behind
// known beginnings, in passes of any length, on several ranks.
#include "generate/batch_generator.h"

#include <gtest/gtest.h>

#include <random>

#include "comm/backends.h"
#include "engine/inference_model.h"
#include "generate/generator.h"
#include "testing/toy_model.h"

namespace megalith::generate {
namespace {

constexpr int64_t kContext = 256;

models::ModelSpec spec_named(std::string_view family) {
  models::ModelSpec spec = testing::toy_family_settings(models::family_named(family, "test")).model;
  spec.context = kContext;
  spec.dropout = 0;
  return spec;
}

void fill(engine::InferenceModel& model, device::Device& device) {
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    for (float& value : values) value *= 3;  // so that what comes next is not all alike
    device.wait(device.copy_to_device(parameter.mutable_compute(), values.data()));
  }
}

/// Requests of all kinds: greedy and drawn, long and short, some that begin alike.
std::vector<Request> requests_of(const models::ModelSpec& spec, size_t count) {
  std::mt19937 random(9);
  std::vector<int32_t> system(100);
  for (int32_t& id : system) id = static_cast<int32_t>(random() % 50);
  std::vector<Request> requests(count);
  for (size_t i = 0; i < count; ++i) {
    Request& request = requests[i];
    if (i % 3 == 0) request.prompt = system;
    const size_t more = 1 + random() % 90;
    for (size_t n = 0; n < more; ++n) request.prompt.push_back(static_cast<int32_t>(random() % 50));
    request.client = std::string(1, static_cast<char>('a' + i % 3));
    request.options.max_new_tokens = static_cast<int64_t>(random() % (i % 2 == 0 ? 220 : 30));
    request.options.sampling.temperature = i % 4 == 0 ? 0 : 0.9;
    request.options.sampling.top_k = i % 4 == 1 ? 20 : 0;
    request.options.sampling.top_p = i % 4 == 2 ? 0.8 : 1;
    request.options.sampling.seed = i;
    if (i % 2 == 1) request.options.end_ids = {7};
  }
  requests.back().options.max_new_tokens = spec.context;  // ends with the context, if not before
  return requests;
}

struct Setup {
  parallel::Layout layout = {};
  int64_t sequences = 8;
  int64_t tokens = 64;
  int64_t blocks = 64;
  bool keeps = true;
  bool at_once = true;  // else each when the one before has ended
};

struct Outcome {
  std::vector<Generated> results;
  int64_t preemptions = 0;
};

Outcome run(const models::ModelSpec& spec, const Setup& setup, size_t count) {
  Outcome outcome;
  comm::run_ranks(setup.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    engine::InferenceModel model(spec, *device, world,
                                 {.tensor_shards = 2, .layout = setup.layout});
    fill(model, *device);
    std::vector<int64_t> blocks;  // so that those of tokens run out first
    for (const engine::KvGroup& group : engine::kv_groups(spec))
      blocks.push_back(group.is_memory ? 3 * setup.blocks : setup.blocks);
    BatchGenerator generator(
        model.engine(), nullptr,
        {.limits = {setup.sequences, setup.tokens, static_cast<int64_t>(count)},
         .blocks = blocks,
         .keeps_prefixes = setup.keeps});
    std::vector<Generated> results(count);
    std::vector<Request> requests = requests_of(spec, count);
    for (size_t i = 0; i < count; ++i) {
      requests[i].on_end = [&results, i](Generated result) { results[i] = std::move(result); };
      EXPECT_TRUE(generator.submit(std::move(requests[i])).has_value());
      while (!setup.at_once && generator.step()) {
      }
    }
    while (generator.step()) generator.blocks().check();
    for (size_t g = 0; g < blocks.size(); ++g) EXPECT_EQ(generator.blocks().in_use(g), 0);
    if (world.rank() == world.size() - 1) {
      outcome.results = std::move(results);
      outcome.preemptions = generator.scheduler().preemptions();
    }
  });
  return outcome;
}

void expect_same(const Outcome& mine, const Outcome& alone, const char* what) {
  ASSERT_EQ(mine.results.size(), alone.results.size());
  for (size_t i = 0; i < mine.results.size(); ++i) {
    EXPECT_EQ(mine.results[i].ids, alone.results[i].ids) << what << " request " << i;
    EXPECT_EQ(mine.results[i].logprobs, alone.results[i].logprobs) << what << " request " << i;
    EXPECT_EQ(mine.results[i].finish_reason, alone.results[i].finish_reason) << what << i;
  }
}

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

TEST(BatchGenerator, WritesWhatGenerateWrites) {
  const models::ModelSpec spec = spec_named("qwen3");
  const auto device = device::make_cpu_device(2);
  engine::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  const Outcome outcome = run(spec, {}, 6);
  const std::vector<Request> requests = requests_of(spec, 6);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generated result =
        generate(model.engine(), nullptr, requests[i].prompt, requests[i].options);
    EXPECT_EQ(result.ids, outcome.results[i].ids) << i;
    EXPECT_EQ(result.logprobs, outcome.results[i].logprobs) << i;
  }
}

TEST(BatchGenerator, CancelledRequestsLeaveNothing) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(1);
  engine::InferenceModel model(spec, *device, {.tensor_shards = 2});
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
  engine::InferenceModel model(spec, *device, {.tensor_shards = 2});
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
