// SPDX-License-Identifier: Apache-2.0
#include "generate/batch_cases.h"

#include <gtest/gtest.h>

#include <random>

#include "comm/backends.h"
#include "testing/toy_model.h"

namespace megalith::generate {

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

namespace {

/// After an odd token comes an even one, after an even one any; it may end behind three even ones.
class Odd : public TokenConstraint {
 public:
  void mask(std::span<uint64_t> allowed) const override {
    std::ranges::fill(allowed, last_ % 2 == 1 ? 0x5555555555555555 : ~uint64_t{0});
    allowed.back() &= (uint64_t{1} << 100 % 64) - 1;
  }
  bool can_end() const override { return even_ >= 3; }
  void accept(int32_t id) override {
    last_ = id;
    even_ = id % 2 == 0 ? even_ + 1 : 0;
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Odd>(*this); }

 private:
  int32_t last_ = 0;
  int64_t even_ = 0;
};

}  // namespace

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
    if (i % 4 == 3) request.options.min_tokens = 9;
    if (i % 5 == 1 || i % 6 == 0) request.options.top_logprobs = 3;
    request.options.prompt_logprobs = !spec.is_encoder_decoder() && (i % 3 == 0 || i % 7 == 1);
    if (i % 4 == 2) request.allowed = std::make_unique<Odd>();
  }
  requests.back().options.max_new_tokens = spec.context;  // ends with the context, if not before
  return requests;
}

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
    EXPECT_EQ(mine.results[i].top_logprobs, alone.results[i].top_logprobs) << what << i;
    EXPECT_EQ(mine.results[i].prompt_logprobs, alone.results[i].prompt_logprobs) << what << i;
    EXPECT_EQ(mine.results[i].prompt_top_logprobs, alone.results[i].prompt_top_logprobs)
        << what << i;
  }
}

}  // namespace megalith::generate
