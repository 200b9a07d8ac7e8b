// SPDX-License-Identifier: Apache-2.0
// The layout does not change the bits: losses, gradient norms and the whole state after five steps,
// for everything that may vary between two runs of one recipe. The recipe has dropout, clipping
// that bites, weight decay, z-loss, accumulation over micro-batches and data shards.
#include <gtest/gtest.h>

#include "comm/backends.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::Machine;
using megalith::testing::run_toy;
using megalith::testing::toy_settings;
using megalith::testing::ToyRun;
using megalith::testing::Variant;

constexpr int kSteps = 5;

/// Nothing if five steps under `other` give the bits of five serial steps of `serial`.
::testing::AssertionResult same(const Settings& serial, const Settings& other,
                                const Machine& machine = {}) {
  const std::string found = testing::SerialRun(serial, kSteps).difference(other, machine);
  return found.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << found;
}

/// The tied table, a whole layer, parts of another, of all norms the biases.
void freeze(Settings& settings) {
  for (const char* match : {"embedding.*", "layers.0.*", "layers.1.mlp.*", "*norm*.bias"})
    settings.frozen.emplace_back(match);
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  all.push_back({"tied f32", toy_settings()});
  all.push_back({"untied f32", toy_settings()});
  all.back().settings.model.head.tied = false;
  all.push_back({"tied bf16", toy_settings()});
  all.back().settings.weights = all.back().settings.activations = DType::bf16;
  all.push_back({"bf16 weights, f32 activations", toy_settings()});
  all.back().settings.weights = DType::bf16;
  all.push_back({"f32 weights, bf16 activations", toy_settings()});
  all.back().settings.activations = DType::bf16;
  all.push_back({"tied f16", testing::in_f16(toy_settings())});
  all.push_back({"f16 weights, f32 activations", toy_settings()});
  all.back().settings.weights = DType::f16;
  all.push_back({"f32 weights, f16 activations", testing::in_f16(toy_settings())});
  all.back().settings.weights = DType::f32;
  all.push_back({"f16, ragged, materialised, fewer heads", testing::in_f16(toy_settings())});
  all.back().settings.ragged = true;
  testing::set_materialised(all.back().settings.model);
  testing::set_kv_heads(all.back().settings.model, 2);
  all.push_back({"ragged, materialised, fewer key/value heads", toy_settings()});
  all.back().settings.ragged = true;
  testing::set_materialised(all.back().settings.model);
  testing::set_kv_heads(all.back().settings.model, 2);
  all.back().settings.split.tensor_shards = 2;
  all.push_back({"llama f32", testing::toy_llama_settings()});
  all.back().settings.ragged = true;
  all.back().settings.model.head.softcap = 5;
  all.back().settings.model.head.scale = 0.75;
  all.push_back({"llama bf16", testing::toy_llama_settings()});
  all.back().settings.model.head.softcap = 4;
  all.back().settings.weights = all.back().settings.activations = DType::bf16;
  all.push_back({"partly frozen", toy_settings()});
  all.back().settings.weights = DType::bf16;
  freeze(all.back().settings);
  all.push_back({"nothing trains on the first stage", toy_settings()});
  all.back().settings.model.head.tied = false;
  for (const char* match : {"embedding.*", "position.*", "layers.0.*", "layers.1.*"})
    all.back().settings.frozen.emplace_back(match);
  all.push_back({"rates by depth and group, partly frozen", toy_settings()});
  freeze(all.back().settings);
  all.back().settings.adamw.depths = {
      {"layers.2.", 0.9}, {"layers.1.", 0.9 * 0.9}, {"position.", 0.5}};
  all.back().settings.adamw.groups = {{"layers.*.bias", 2, 0.0}, {"*", 1.5, {}}};
  all.push_back({"layers with the same weights", toy_settings()});
  all.back().settings.model.layer_groups = 1;
  all.back().settings.ragged = true;
  all.push_back({"two groups of layers with the same weights, partly frozen", toy_settings()});
  all.back().settings.model.layer_groups = 2;
  all.back().settings.weights = all.back().settings.activations = DType::bf16;
  all.back().settings.frozen = {"layers.0.mlp.*", "layers.1.norm_*"};
  all.push_back({"relative positions", testing::toy_relative_settings()});
  all.back().settings.ragged = true;
  all.push_back({"relative positions, bf16", testing::toy_relative_settings()});
  all.back().settings.weights = all.back().settings.activations = DType::bf16;
  testing::set_kv_heads(all.back().settings.model, 2);
  return all;
}

void expect_same_under(const parallel::Layout& layout) {
  for (const Variant& variant : variants()) {
    Settings parallel = variant.settings;
    parallel.layout = layout;
    EXPECT_TRUE(same(variant.settings, parallel)) << variant.name;
  }
}

TEST(EngineLayout, TwoTensorRanks) { expect_same_under({.tensor = 2}); }
TEST(EngineLayout, TwoPipelineRanks) { expect_same_under({.pipeline = 2}); }
TEST(EngineLayout, TwoDataRanks) { expect_same_under({.data = 2}); }
TEST(EngineLayout, TwoOfEach) { expect_same_under({.tensor = 2, .pipeline = 2, .data = 2}); }

TEST(EngineLayout, SequenceParallel) {
  expect_same_under({.tensor = 2, .sequence = true});
  expect_same_under({.tensor = 2, .pipeline = 2, .data = 2, .sequence = true});
}

TEST(EngineLayout, SequenceParallelWithEveryRecomputationAndMicroBatch) {
  for (const auto mode :
       {layers::Recompute::none, layers::Recompute::selective, layers::Recompute::full}) {
    for (const int64_t samples : {1, 4}) {
      Settings other = toy_settings();
      other.layout = {.tensor = 4, .pipeline = 3, .sequence = true};
      other.recompute.mode = mode;
      other.micro_batch = samples;
      EXPECT_TRUE(same(toy_settings(), other)) << static_cast<int>(mode) << samples;
    }
  }
}

/// A vocabulary so large that logits come in chunks, of rows whose number depends on the layout: a
/// chunk must not end inside a pair of the bf16 chain.
TEST(EngineLayout, ChunksOfLogits) {
  Settings serial = toy_settings();
  serial.model.set_num_layers(1);
  serial.model.hidden = 16;
  serial.model.context = 51;
  serial.model.vocab = 103'000;
  serial.weights = serial.activations = DType::bf16;
  serial.ragged = true;
  serial.micro_batch = 1;  // 51 rows: one chunk
  Settings other = serial;
  other.micro_batch = 4;  // 204 rows in chunks of 64
  EXPECT_TRUE(same(serial, other));
  other.layout = {.tensor = 2};  // and of 192
  EXPECT_TRUE(same(serial, other));
}

/// Masters and moments over the data ranks: the split of a tensor, of a stage, of an odd share.
TEST(EngineLayout, SpreadOptimizerState) {
  for (const parallel::Layout& layout :
       {parallel::Layout{.data = 2}, parallel::Layout{.tensor = 2, .pipeline = 2, .data = 2},
        parallel::Layout{.tensor = 2, .data = 2, .sequence = true}}) {
    for (const Variant& variant : variants()) {
      Settings other = variant.settings;
      other.layout = layout;
      other.zero = 1;
      EXPECT_TRUE(same(variant.settings, other)) << variant.name;
    }
  }
}

/// Large enough that owners meet inside matrices: rows, columns of canonical shards, a table.
TEST(EngineLayout, SpreadOptimizerStateWithinTensors) {
  Settings serial = toy_settings();
  serial.model.set_num_layers(1);
  serial.model.hidden = 192;
  testing::set_ffn(serial.model, 768);
  serial.model.vocab = 300;
  serial.model.context = 8;
  serial.split.data_shards = 4;
  serial.micro_batch = 1;
  serial.batch.full = 4;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    serial.weights = serial.activations = dtype;
    for (const parallel::Layout& layout :
         {parallel::Layout{.data = 4}, parallel::Layout{.tensor = 2, .data = 2}}) {
      Settings other = serial;
      other.layout = layout;
      other.zero = 1;
      EXPECT_TRUE(same(serial, other));
    }
  }
}

Settings interleaved(Settings settings, int stages, int chunks) {
  settings.layout.pipeline = stages;
  settings.layout.chunks = chunks;
  settings.pipeline_schedule = parallel::ScheduleKind::interleaved;
  return settings;
}

TEST(EngineLayout, Chunks) {
  for (Variant& variant : variants()) {
    variant.settings.model.set_num_layers(5);  // uneven chunks
    EXPECT_TRUE(same(variant.settings, interleaved(variant.settings, 2, 2))) << variant.name;
  }
}

/// The sum over the layers goes round the stages, more than once.
TEST(EngineLayout, ChunksOfLayersWithTheSameWeights) {
  for (const int groups : {1, 2, 3}) {
    Settings serial = toy_settings();
    serial.model.set_num_layers(9);
    serial.model.layer_groups = groups;
    EXPECT_TRUE(same(serial, interleaved(serial, 2, 4))) << groups;
    EXPECT_TRUE(same(serial, interleaved(serial, 3, 2))) << groups;
    Settings other = interleaved(serial, 2, 3);
    other.layout.data = 2;
    other.zero = 1;
    EXPECT_TRUE(same(serial, other)) << groups;
  }
}

/// So does that of a table of all layers.
TEST(EngineLayout, ChunksOfLayersWithRelativePositions) {
  Settings serial = testing::toy_relative_settings();
  serial.model.set_num_layers(7);
  EXPECT_TRUE(same(serial, interleaved(serial, 3, 2)));
  Settings other = interleaved(serial, 2, 3);
  other.layout.tensor = other.layout.data = 2;
  other.zero = 1;
  other.micro_batch = 1;
  other.recompute.mode = layers::Recompute::full;
  EXPECT_TRUE(same(serial, other));
}

TEST(EngineLayout, ChunksWithAllElse) {
  Settings serial = toy_settings();
  serial.model.set_num_layers(6);
  serial.micro_batch = 1;  // four a shard: not a multiple of three stages
  for (const auto mode : {layers::Recompute::none, layers::Recompute::selective}) {
    Settings other = interleaved(serial, 3, 2);
    other.layout.tensor = other.layout.data = 2;
    other.layout.sequence = true;
    other.recompute.mode = mode;
    EXPECT_TRUE(same(serial, other)) << static_cast<int>(mode);
  }
}

TEST(EngineLayout, AllForwardAllBackward) {
  Settings other = toy_settings();
  other.layout.pipeline = 2;
  other.pipeline_schedule = parallel::ScheduleKind::gpipe;
  EXPECT_TRUE(same(toy_settings(), other));
}

TEST(EngineLayout, RefusesMoreChunksThanLayers) {
  EXPECT_THROW(check(interleaved(toy_settings(), 2, 2), "test"), UserError);
  Settings settings = toy_settings();
  settings.layout.pipeline = 4;
  EXPECT_THROW(check(settings, "test"), UserError);
  settings.layout = {.pipeline = 2, .chunks = 2};  // without the schedule for it
  settings.model.set_num_layers(4);
  EXPECT_THROW(check(settings, "test"), UserError);
}

// More ranks than cores, every kind of group at once (the long tier repeats it two hundred times).
TEST(EngineLayout, SixteenRanksOnFewCores) {
  Settings parallel = toy_settings();
  parallel.layout = {.tensor = 4, .pipeline = 2, .data = 2};
  ASSERT_EQ(parallel.layout.num_ranks(), 16);
  EXPECT_TRUE(same(toy_settings(), parallel));
}

TEST(EngineLayout, ThreePipelineRanksWithEveryRecomputation) {
  for (const auto mode :
       {layers::Recompute::none, layers::Recompute::selective, layers::Recompute::full}) {
    Settings other = toy_settings();
    other.layout.pipeline = 3;
    other.recompute.mode = mode;
    EXPECT_TRUE(same(toy_settings(), other));
  }
}

TEST(EngineLayout, Threads) {
  for (const Variant& variant : variants()) {
    for (const int threads : {2, 3}) {
      EXPECT_TRUE(same(variant.settings, variant.settings, {.threads = threads}))
          << variant.name << threads;
    }
  }
}

TEST(EngineLayout, MicroBatches) {
  for (const Variant& variant : variants()) {
    for (const int64_t samples : {1, 4}) {
      Settings other = variant.settings;
      other.micro_batch = samples;
      EXPECT_TRUE(same(variant.settings, other)) << variant.name << samples;
    }
  }
}

TEST(EngineLayout, InstructionSets) {
  if (device::detect_isa() == device::Isa::avx2)
    GTEST_SKIP() << "this machine has one instruction set only";
  for (const Variant& variant : variants()) {
    for (const auto isa : {device::Isa::avx2, device::Isa::avx512}) {
      EXPECT_TRUE(same(variant.settings, variant.settings, {.isa = isa})) << variant.name;
    }
  }
}

TEST(EngineLayout, Recomputation) {
  for (const Variant& variant : variants()) {
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      Settings other = variant.settings;
      other.recompute.mode = mode;
      EXPECT_TRUE(same(variant.settings, other)) << variant.name;
    }
  }
}

TEST(EngineLayout, RecomputationOfTheFirstLayersOfAStage) {
  for (const auto mode : {layers::Recompute::none, layers::Recompute::selective}) {
    for (const int64_t full_layers : {1, 2}) {
      Settings other = interleaved(toy_settings(), 2, 2);
      other.model.set_num_layers(6);
      Settings serial = toy_settings();
      serial.model.set_num_layers(6);
      other.recompute = {mode, full_layers};
      EXPECT_TRUE(same(serial, other)) << static_cast<int>(mode) << full_layers;
    }
  }
}

TEST(EngineLayout, MaterialisedAttentionInF32) {
  Settings other = toy_settings();
  testing::set_materialised(other.model);
  EXPECT_TRUE(same(toy_settings(), other));
}

/// Losses of samples without dropout, from whoever has the last stage.
std::vector<double> validation_losses(const Settings& settings) {
  std::vector<double> losses;
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    const parallel::Mesh mesh(world, settings.layout);
    Engine engine(settings, *device, mesh);
    engine.initialise();
    auto mine = engine.sample_losses(megalith::testing::toy_batch(settings, 50, 2)).sums;
    EXPECT_EQ(mine.empty(), !mesh.is_last_stage());
    if (mesh.is_last_stage() && mesh.at().tensor == 0) losses = std::move(mine);
  });
  return losses;
}

TEST(EngineLayout, ValidationLosses) {
  for (Variant& variant : variants()) {
    variant.settings.model.set_num_layers(5);
    const auto serial = validation_losses(variant.settings);
    ASSERT_EQ(serial.size(), 2u);
    Settings other = interleaved(variant.settings, 2, 2);
    EXPECT_EQ(validation_losses(other), serial) << variant.name;
    other.layout.tensor = 2;
    other.layout.sequence = true;
    EXPECT_EQ(validation_losses(other), serial) << variant.name;
  }
}

/// What must change the bits, does: the comparisons above can fail.
TEST(EngineLayout, TheRecipeDoesChangeTheBits) {
  const auto other = [](auto change) {
    Settings settings = toy_settings();
    change(settings);
    return settings;
  };
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.seed = 7; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.model.dropout = 0; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.clip = 0.49; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.z_loss = 0; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.adamw.weight_decay = 0.2; })));
  EXPECT_FALSE(same(toy_settings(), other([](Settings& s) { s.split.tensor_shards = 1; })));
}

TEST(EngineLayout, ItLearns) {
  Settings settings = toy_settings();
  settings.model.dropout = 0;
  ToyRun run;
  run_toy(settings, 40, {}, run);
  EXPECT_LT(run.loss.back(), run.loss.front() - 1);
  for (size_t i = 0; i < run.grad_norm.size(); ++i) EXPECT_GT(run.grad_norm[i], 0) << i;
}

}  // namespace
}  // namespace megalith::engine
