// SPDX-License-Identifier: Apache-2.0
// Generation takes what its plan says, by class and in sum, to the byte, under every layout; and a
// run that writes samples plans them.
#include <gtest/gtest.h>

#include "account/layout_plan.h"
#include "account/plan.h"
#include "account/traced_step.h"
#include "comm/backends.h"
#include "inference/inference_model.h"
#include "testing/toy_model.h"

namespace megalith::account {
namespace {

constexpr int64_t kPrompt = 40, kNew = 60, kContext = 110;

/// A prompt read and continued token by token.
void generate(inference::InferenceEngine& engine) {
  const std::vector<int32_t> prompt(kPrompt, 3);
  auto [cache, ids] = engine.begin(prompt, kNew);
  engine.extend(cache, ids);
  for (int64_t n = 0; n + 1 < kNew; ++n) engine.extend(cache, std::span(prompt).first(1));
}

engine::Settings settings_named(const std::string& name) {
  engine::Settings s = name == "llama" ? testing::toy_llama_settings()
                       : name == "t5"  ? testing::toy_family_settings(models::kT5)
                                       : testing::toy_settings();
  s.trained_length = s.model.context;
  s.model.context = kContext;
  return s;
}

class Generation
    : public ::testing::TestWithParam<std::tuple<std::string, DType, parallel::Layout>> {};

TEST_P(Generation, IsPlannedToTheByte) {
  const auto& [name, compute, layout] = GetParam();
  const engine::Settings s = settings_named(name);
  const inference::InferenceModel::Options options{
      .compute = compute, .tensor_shards = s.split.tensor_shards, .layout = layout};
  comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(2);
    {
      inference::InferenceModel model(s.model, *device, world, options);
      for (parameters::Parameter& parameter : model.parameters().all())
        device->wait(device->fill_zero(parameter.mutable_compute()));
      generate(model.engine());
    }
    const Plan plan = trace(device->target(), [&](device::Device& traced) {
      const auto shape = comm::make_traced_communicator(traced, world.rank(), layout.num_ranks());
      inference::InferenceModel model(s.model, traced, *shape, options);
      traced_generation(model.engine(), kPrompt, kNew);
    });
    EXPECT_EQ(plan.memory, memory_of(*device)) << "rank " << world.rank();
    // A stage of an encoder keeps nothing.
    if (world.rank() + 1 == layout.num_ranks()) {
      EXPECT_GT(plan.memory.of(device::MemoryClass::activations), 0);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Generation,
    ::testing::Combine(::testing::Values("gpt2", "llama", "t5"),
                       ::testing::Values(DType::f32, DType::bf16),
                       ::testing::Values(parallel::Layout{}, parallel::Layout{.tensor = 2},
                                         parallel::Layout{.pipeline = 3},
                                         parallel::Layout{.tensor = 2, .pipeline = 2})));

TEST(Samples, ArePlannedOnTheRanksThatWriteThem) {
  engine::Settings s = settings_named("gpt2");
  s.layout = {.tensor = 2, .data = 2};
  s.micro_batch = 1;  // so that a long prompt takes more than a step
  const auto device = device::make_cpu_device(1);
  const BesideSteps without{}, with{.prompt_lengths = {kPrompt}, .new_tokens = kNew};
  const auto plain = plan_memory(s, device->target(), without);
  const auto plans = plan_memory(s, device->target(), with);
  comm::run_ranks(s.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto own = device::make_cpu_device(1);
    const parallel::Mesh mesh(world, s.layout);
    engine::Engine engine(s, *own, mesh);
    engine.initialise();
    engine.step(1, 1e-3, testing::toy_micro_batches(s, 1, mesh.at().data),
                testing::toy_weight(s, 1));
    if (mesh.at().data == 0) {
      inference::InferenceEngine inference(engine.model());
      generate(inference);
    }
    const auto rank = static_cast<size_t>(world.rank());
    EXPECT_EQ(plans[rank], memory_of(*own)) << "rank " << rank;
    if (mesh.at().data == 0) {
      EXPECT_NE(plans[rank], plain[rank]) << "the samples take no more than a step";
    } else {
      EXPECT_EQ(plans[rank], plain[rank]);
    }
  });
}

}  // namespace
}  // namespace megalith::account
