// SPDX-License-Identifier: Apache-2.0
// Parameters that are not trained: they stay as they were, what trains beside them moves as it
// would without them, and they take no memory but their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "comm/backends.h"
#include "engine/state.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::run_toy;
using megalith::testing::toy_settings;
using megalith::testing::ToyRun;
using ::testing::HasSubstr;

/// What a rank alone has after `steps`.
template <typename Check>
void after(const Settings& settings, int64_t steps, Check&& check) {
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  Engine engine(settings, *device, mesh);
  engine.initialise();
  for (int64_t step = 1; step <= steps; ++step)
    engine.step(step, optim::learning_rate(settings.schedule, {.step = step}),
                testing::toy_micro_batches(settings, step, 0), testing::toy_weight(settings, step));
  check(engine);
}

std::map<std::string, std::vector<float>> weights_after(const Settings& settings, int64_t steps) {
  std::map<std::string, std::vector<float>> all;
  after(settings, steps, [&](Engine& engine) {
    for (const parameters::Parameter& parameter : engine.parameters().all()) {
      const auto* values = parameter.compute().view.as<float>();
      all[parameter.name()].assign(values, values + parameter.local_elements());
    }
  });
  return all;
}

/// Without clipping, which couples all: a step moves each parameter by its own gradient.
TEST(Frozen, OnlyTheOthersMoveAndAsTheyWould) {
  Settings settings = toy_settings();
  settings.clip = std::numeric_limits<double>::infinity();
  const auto drawn = weights_after(settings, 0), all = weights_after(settings, 1);
  for (const char* match :
       {"embedding.weight", "position.weight", "layers.0.*", "layers.*.attention.qkv.*",
        "layers.*.norm_*", "*.bias", "*.weight", "final_norm.*"}) {
    Settings partly = settings;
    partly.frozen = {match};
    const auto some = weights_after(partly, 1);
    for (const auto& [name, values] : some) {
      const bool frozen = optim::matches(match, name);
      EXPECT_EQ(values, frozen ? drawn.at(name) : all.at(name)) << match << ": " << name;
      EXPECT_NE(drawn.at(name), all.at(name)) << name;
    }
  }
}

TEST(Frozen, PatternsThatSayNothingAreRefused) {
  const auto refusal = [](std::vector<std::string> patterns) -> std::string {
    Settings settings = toy_settings();
    settings.frozen = std::move(patterns);
    try {
      check(settings, "recipe");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({"embedding.*", "layers.2.mlp.*"}), "");
  EXPECT_THAT(refusal({"embedding.*", "layer.0.*"}),
              HasSubstr("no parameter is called \"layer.0.*\""));
  EXPECT_THAT(refusal({""}), HasSubstr("optimizer.frozen"));
  EXPECT_THAT(refusal({"*"}), HasSubstr("leaves no parameter to train"));
}

TEST(Frozen, TakesItsOwnMemoryAlone) {
  Settings settings = toy_settings();
  settings.weights = DType::bf16;
  settings.frozen = {"layers.*"};
  after(settings, 1, [](Engine& engine) {
    for (const parameters::Parameter& parameter : engine.parameters().all()) {
      EXPECT_EQ(parameter.trainable(), !parameter.name().starts_with("layers."));
      if (parameter.trainable()) continue;
      EXPECT_EQ(parameter.compute().format, Format::bf16);
      EXPECT_TRUE(parameter.compute_is_master());
      EXPECT_EQ(parameter.owned().count, 0);
      EXPECT_TRUE(parameter.gradient().absent());
    }
    for (const StateTensor& tensor : state_list(engine)) {
      const auto& parameter = engine.parameters().all()[tensor.parameter];
      if (parameter.trainable()) continue;
      EXPECT_FALSE(tensor.optimizer) << tensor.name;
      EXPECT_EQ(tensor.dtype, DType::bf16) << tensor.name;
    }
  });
  const auto bytes = [](const Settings& s, device::MemoryClass memory_class) {
    int64_t found = 0;
    after(s, 0, [&](Engine& engine) { found = engine.device().arena(memory_class).in_use(); });
    return found;
  };
  Settings all = settings;
  all.frozen.clear();
  using device::MemoryClass;
  EXPECT_EQ(bytes(settings, MemoryClass::weights), bytes(all, MemoryClass::weights));
  EXPECT_LT(bytes(settings, MemoryClass::gradients), bytes(all, MemoryClass::gradients) / 2);
  EXPECT_LT(bytes(settings, MemoryClass::optimizer), bytes(all, MemoryClass::optimizer) / 2);
}

}  // namespace
}  // namespace megalith::engine
