// SPDX-License-Identifier: Apache-2.0
#include "generate/batch_testing.h"

#include <gtest/gtest.h>

#include <random>

#include "comm/backends.h"
#include "testing/toy_adapter.h"
#include "testing/toy_model.h"

namespace megalith::generate {

models::ModelSpec spec_named(std::string_view family) {
  models::ModelSpec spec = testing::toy_family_settings(models::family_named(family, "test")).model;
  spec.context = kContext;
  spec.dropout = 0;
  return spec;
}

void fill(inference::InferenceModel& model, device::Device& device, uint64_t seed) {
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, seed, DType::f32, values.data());
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
    if (i % 3 == 2) request.options.sampling.logit_bias = {{5, 30}, {9, 29}};  // so that it repeats
    if (i % 4 == 2) request.allowed = std::make_unique<Odd>();
  }
  requests.back().options.max_new_tokens = spec.context;  // ends with the context, if not before
  return requests;
}

std::vector<Request> guessed_requests(const models::ModelSpec& spec, size_t count) {
  std::vector<Request> requests = requests_of(spec, count);
  for (size_t i = 0; i < count; ++i) requests[i].options.lookup = static_cast<int64_t>(i % 6);
  return requests;
}

std::vector<Request> drafted_requests(const models::ModelSpec& spec, size_t count) {
  std::vector<Request> requests = requests_of(spec, count);
  for (size_t i = 0; i < count; ++i) requests[i].options.draft = static_cast<int64_t>(i % 6);
  return requests;
}

std::vector<Request> searches(const models::ModelSpec& spec, size_t count) {
  constexpr std::array kStopping = {EarlyStopping::at_once, EarlyStopping::likely,
                                    EarlyStopping::never};
  std::vector<Request> requests = requests_of(spec, count);
  for (size_t i = 0; i < count; ++i) {
    if (i % 4 == 0) continue;
    Request& request = requests[i];
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 1 + 25 * i % 100));
    GenerateOptions& options = request.options;
    options.sampling = {};
    if (i % 3 == 0) options.sampling.repetition_penalty = 1.2;
    options.max_new_tokens = static_cast<int64_t>(i % 7 == 1 ? 1 : 50 + 23 * i % 60);
    options.end_ids = {};
    if (i % 2 == 1) options.end_ids = {7, 11, 30};
    options.beams = static_cast<int64_t>(2 + i % 3);
    options.best = static_cast<int64_t>(1 + i % 2);
    options.length_penalty = i % 5 == 0 ? 0.5 : i % 5 == 1 ? -1 : i % 5 == 2 ? 2 : 1;
    options.early_stopping = kStopping[i % 3];
  }
  return requests;
}

std::vector<Request> mixed_requests(const models::ModelSpec& spec, size_t count) {
  std::array kinds = {requests_of(spec, count), guessed_requests(spec, count),
                      drafted_requests(spec, count), searches(spec, count)};
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i)  // by fours, so that each meets every kind of the others'
    requests.push_back(std::move(kinds[i / 4 % kinds.size()][i]));
  return requests;
}

Outcome run(const models::ModelSpec& spec, const Circumstances& setup, size_t count) {
  Outcome outcome;
  comm::run_ranks(setup.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    inference::InferenceModel model(spec, *device, world,
                                    {.tensor_shards = 2, .layout = setup.layout});
    fill(model, *device);
    std::vector<int64_t> blocks;  // so that those of tokens run out first
    for (const inference::KvGroup& group : inference::kv_groups(spec))
      blocks.push_back(group.is_memory ? 3 * setup.blocks : setup.blocks);
    inference::InferenceModel draft(spec, *device, world,
                                    {.tensor_shards = 2, .layout = setup.layout});
    if (setup.draft_seed != 0) fill(draft, *device, setup.draft_seed);
    BatchGenerator generator(
        model.engine(), nullptr,
        {.limits = {setup.sequences, setup.tokens, static_cast<int64_t>(count)},
         .blocks = blocks,
         .keeps_prefixes = setup.keeps,
         .draft = setup.draft_seed == 0 ? nullptr : &draft.engine(),
         .draft_blocks = std::vector<int64_t>(blocks.size(), 12)});
    std::vector<Generated> results(count);
    std::vector<Request> requests = setup.requests(spec, count);
    std::vector<std::shared_ptr<const layers::Adapter>> adapters(3);
    for (uint64_t number = 1; number < adapters.size(); ++number)
      adapters[number] = testing::toy_adapter(spec, model.parameters(), *device, number);
    if (setup.prompts) adapters[1] = testing::toy_prompt_adapter(model.parameters(), *device, 1);
    for (size_t i = 0; i < count; ++i) {
      // Of those that begin alike some have one, some another.
      const uint64_t number = setup.adapters ? i / 3 % 3 : 0;
      requests[i].adapter = {adapters[number], number};
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

namespace {

void expect_same(const Generated& mine, const Generated& alone) {
  EXPECT_EQ(mine.ids, alone.ids);
  EXPECT_EQ(mine.logprobs, alone.logprobs);
  EXPECT_EQ(mine.finish_reason, alone.finish_reason);
  EXPECT_EQ(mine.top_logprobs, alone.top_logprobs);
  EXPECT_EQ(mine.prompt_logprobs, alone.prompt_logprobs);
  EXPECT_EQ(mine.prompt_top_logprobs, alone.prompt_top_logprobs);
  EXPECT_EQ(mine.score, alone.score);
  ASSERT_EQ(mine.others.size(), alone.others.size());
  for (size_t i = 0; i < mine.others.size(); ++i) expect_same(mine.others[i], alone.others[i]);
}

}  // namespace

void expect_same(const Outcome& mine, const Outcome& alone, const char* what) {
  ASSERT_EQ(mine.results.size(), alone.results.size());
  for (size_t i = 0; i < mine.results.size(); ++i) {
    SCOPED_TRACE(std::string(what) + ", request " + std::to_string(i));
    expect_same(mine.results[i], alone.results[i]);
  }
}

}  // namespace megalith::generate
