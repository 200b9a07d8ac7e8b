// SPDX-License-Identifier: Apache-2.0
// Runs that train beside weights in blocks, or beside some layers' weights alone: the plan is the
// allocation, to the byte, and layers whose blocks or factors differ are traced apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "account/layout_plan.h"
#include "account/plan.h"
#include "account/rank_classes.h"
#include "account/traced_step.h"
#include "comm/backends.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "testing/toy_adapter.h"
#include "testing/toy_blocks.h"
#include "testing/toy_model.h"

namespace megalith::account {
namespace {

/// By rank, of two steps with what lies between them; nothing is copied in the background.
std::vector<MemoryByClass> measured(const engine::Settings& settings, const BesideSteps& beside) {
  std::vector<MemoryByClass> memory(static_cast<size_t>(settings.layout.num_ranks()));
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    const parallel::Mesh mesh(world, settings.layout);
    engine::Engine engine(settings, *device, mesh);
    engine.initialise();
    testing::fill_blocks(engine.parameters(), *device);
    for (int64_t step = 1; step <= 2; ++step) {
      engine.step(step, 1e-3, testing::toy_micro_batches(settings, step, mesh.at().data),
                  testing::toy_weight(settings, step));
      const int64_t mine =
          comm::part_of(beside.validation_samples, mesh.at().data, settings.layout.data).count;
      engine.sample_losses(testing::toy_batch(settings, 100, std::min(mine, settings.micro_batch)));
      engine::ShardedOptimizerState spread(engine);
      engine::state_tensors(engine, spread);
    }
    memory[static_cast<size_t>(world.rank())] = memory_of(*device);
  });
  return memory;
}

engine::Settings in_blocks(bool llama, Format format, DType dtype, bool magnitudes = false) {
  engine::Settings settings = testing::toy_wide_settings(llama);
  settings.weights = settings.activations = dtype;
  settings.formats = testing::toy_formats(settings.model, format);
  auto products =
      std::make_shared<low_rank::FactoredProducts>(*testing::toy_factors(settings.model));
  products->has_magnitudes = magnitudes;
  settings.factors = low_rank::factors_of(std::move(products), settings.masters);
  return settings;
}

void expect_planned(engine::Settings settings, const std::string& what) {
  const BesideSteps beside{.validation_samples = 4, .saves = true};
  const device::Target target{device::DeviceKind::cpu, device::detect_isa(), 1};
  const auto one = plan_memory(settings, target, beside);
  EXPECT_EQ(one, measured(settings, beside)) << what;
  engine::Settings plain = settings;
  plain.formats.clear();
  EXPECT_LT(one[0].of(device::MemoryClass::weights),
            plan_memory(plain, target, beside)[0].of(device::MemoryClass::weights))
      << what;
  settings.recompute.mode = layers::Recompute::full;
  settings.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
  settings.zero = 1;
  EXPECT_EQ(plan_memory(settings, target, beside), measured(settings, beside)) << what;
}

TEST(FrozenBlocks, ArePlannedToTheByte) {
  for (const bool llama : {false, true})
    for (const Format format : {Format::q8_0, Format::q4_0})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const bool magnitudes : {false, true})
          expect_planned(in_blocks(llama, format, dtype, magnitudes),
                         fmt::format("llama {}, {} beside {}, magnitudes {}", llama, format, dtype,
                                     magnitudes));
}

TEST(FrozenBlocks, LayersThatAreStoredOtherwiseAreOfAnotherKind) {
  engine::Settings settings = in_blocks(false, Format::q4_0, DType::f32);
  EXPECT_EQ(layer_kinds(settings), (std::vector<int64_t>{0, 0, 0}));
  settings.formats.at("layers.1.mlp.down.weight") = Format::q8_0;
  EXPECT_EQ(layer_kinds(settings), (std::vector<int64_t>{0, 1, 0}));
  settings.formats.erase("layers.2.mlp.down.weight");
  EXPECT_EQ(layer_kinds(settings), (std::vector<int64_t>{0, 1, 2}));
}

/// Factors beside products of layers of four by the beginning of their names.
engine::Settings with_one_layers_factors(const char* layer) {
  engine::Settings settings = testing::toy_settings();
  settings.model.set_num_layers(4);
  auto products =
      std::make_shared<low_rank::FactoredProducts>(*testing::toy_factors(settings.model));
  std::erase_if(products->products, [&](const auto& p) { return !p.first.starts_with(layer); });
  settings.factors = low_rank::factors_of(std::move(products), settings.masters);
  return settings;
}

TEST(FactorsOfOneLayer, ArePlannedToTheByte) {
  const BesideSteps beside{.validation_samples = 4, .saves = true};
  const device::Target target{device::DeviceKind::cpu, device::detect_isa(), 1};
  for (const char* const layer : {"layers.1.", "layers.2."}) {
    engine::Settings settings = with_one_layers_factors(layer);
    settings.layout = {.pipeline = 4};
    EXPECT_EQ(plan_memory(settings, target, beside), measured(settings, beside))
        << layer << " on four stages";
    settings.layout.data = 2;
    settings.zero = 1;
    EXPECT_EQ(plan_memory(settings, target, beside), measured(settings, beside))
        << layer << " on eight ranks";
  }
}

TEST(FactorsOfOneLayer, MakeItAnotherKind) {
  EXPECT_EQ(layer_kinds(with_one_layers_factors("layers.")), (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(layer_kinds(with_one_layers_factors("layers.2.")), (std::vector<int64_t>{0, 0, 1, 0}));
  engine::Settings settings = with_one_layers_factors("layers.");
  auto products =
      std::make_shared<low_rank::FactoredProducts>(*testing::toy_factors(settings.model));
  for (Range& ranks : products->products.at("layers.3.mlp.down.weight").by_output) ranks.end = 2;
  products->products.at("layers.3.mlp.down.weight").rank = 2;
  settings.factors = low_rank::factors_of(std::move(products), settings.masters);
  EXPECT_EQ(layer_kinds(settings), (std::vector<int64_t>{0, 0, 0, 1}));
}

}  // namespace
}  // namespace megalith::account
