// SPDX-License-Identifier: Apache-2.0
// More tensor shards than key/value heads, and numbers of shards that are not powers of two: every
// layout of one recipe gives the bits of one rank (losses, gradient norms, the whole state).
#include <gtest/gtest.h>

#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::Machine;
using megalith::testing::SerialRun;
using megalith::testing::toy_llama_settings;
using megalith::testing::toy_settings;

constexpr int kGroupedSteps = 3;

struct GroupedHeads {
  int64_t heads, kv_heads;
  int tensor_shards;
  int64_t context = 16;
};

/// A Llama (rotary positions, windows, norms of queries and keys), or a tied GPT-2 with biases.
Settings grouped(bool llama, const GroupedHeads& sizes, DType dtype) {
  Settings s = llama ? toy_llama_settings() : toy_settings();
  s.model.context = sizes.context;
  s.model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.attention.heads = sizes.heads;
    layer.attention.kv_heads = sizes.kv_heads;
    layer.attention.head_dim = 6;
    layer.mlp.ffn = 24;
  });
  s.split.tensor_shards = sizes.tensor_shards;
  s.weights = s.activations = dtype;
  return s;
}

struct GroupedRun {
  explicit GroupedRun(const Settings& settings) : serial(settings), run(settings, kGroupedSteps) {}
  void expect(const std::string& what, const Settings& other, const Machine& machine = {}) const {
    EXPECT_EQ(run.difference(other, machine), "") << what;
  }
  void expect_under(const std::string& what, const parallel::Layout& layout, int zero = 0) const {
    Settings other = serial;
    other.layout = layout;
    other.zero = zero;
    if (layout.chunks > 1) other.pipeline_schedule = parallel::ScheduleKind::interleaved;
    expect(what, other);
  }
  Settings serial;
  SerialRun run;
};

/// Every layout of a recipe whose tensor shards may lie on `ranks` ranks.
void expect_any_layout(const Settings& serial, const std::vector<int>& ranks) {
  const GroupedRun run(serial);
  Settings chunked = serial;
  chunked.model.set_num_layers(5);
  const GroupedRun chunks(chunked);
  for (const int t : ranks) {
    const std::string name = fmt::format("t{}", t);
    const bool sequence = t > 1;
    run.expect_under(name, {.tensor = t});
    run.expect_under(name + " sequence", {.tensor = t, .sequence = sequence});
    run.expect_under(name + " p2", {.tensor = t, .pipeline = 2});
    chunks.expect_under(name + " chunks",
                        {.tensor = t, .pipeline = 2, .sequence = sequence, .chunks = 2});
    run.expect_under(name + " d2", {.tensor = t, .data = 2});
    run.expect_under(name + " d2 spread", {.tensor = t, .data = 2, .sequence = sequence}, 1);
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      Settings other = serial;
      other.layout.tensor = t;
      other.recompute.mode = mode;
      run.expect(name + " recomputes", other);
    }
    for (const int64_t samples : {1, 4}) {
      Settings other = serial;
      other.layout = {.tensor = t, .sequence = sequence};
      other.micro_batch = samples;
      run.expect(fmt::format("{} micro-batch {}", name, samples), other);
    }
  }
  run.expect("threads", serial, {.threads = 3});
  if (device::detect_isa() != device::Isa::avx2)
    run.expect("instruction set", serial, {.isa = device::Isa::avx2});
}

class GroupedLayout : public ::testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  static Settings settings(const GroupedHeads& sizes) {
    return grouped(std::get<0>(GetParam()), sizes, std::get<1>(GetParam()));
  }
};

TEST_P(GroupedLayout, FourShardsOfTwoKeyValueHeads) {
  expect_any_layout(settings({8, 2, 4}), {1, 2, 4});
}

TEST_P(GroupedLayout, FourShardsOfOneKeyValueHead) {
  expect_any_layout(settings({8, 1, 4}), {1, 2, 4});
}

/// Norms over all queries and all keys: more and fewer shards than key heads.
TEST_P(GroupedLayout, NormsOverAllHeads) {
  for (const int64_t kv_heads : {8, 4, 2, 1}) {
    Settings serial = settings({8, kv_heads, 4});
    serial.model.for_each_layer([](layers::LayerSpec& layer) {
      layer.attention.qk_norm = layers::QkNorm::whole;
      layer.attention.head_dim = 8;
    });
    serial.model.layers[1].norm.kind = layers::NormKind::layer;  // sums of two kinds
    expect_any_layout(serial, {1, 2, 4});
  }
}

TEST_P(GroupedLayout, ThreeShards) { expect_any_layout(settings({9, 3, 3, 18}), {1, 3}); }

TEST_P(GroupedLayout, SixShardsOfThreeKeyValueHeads) {
  expect_any_layout(settings({6, 3, 6, 18}), {1, 6});
}

TEST_P(GroupedLayout, ThreeShardsOfOneKeyValueHead) {
  expect_any_layout(settings({3, 1, 3, 18}), {1, 3});
}

TEST_P(GroupedLayout, MaterialisedProbabilitiesAndDocuments) {
  Settings serial = settings({8, 2, 4});
  serial.ragged = true;
  testing::set_materialised(serial.model);
  expect_any_layout(serial, {2, 4});
}

INSTANTIATE_TEST_SUITE_P(All, GroupedLayout,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(DType::f32, DType::bf16)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param) ? "llama" : "gpt2",
                                              name_of(std::get<1>(test.param)));
                         });

/// The split is part of the arithmetic: with another one the bits are others.
TEST(GroupedLayoutSplit, IsPartOfTheResult) {
  Settings two = grouped(true, {8, 2, 4}, DType::f32);
  const GroupedRun run(two);
  two.split.tensor_shards = 2;
  EXPECT_NE(run.run.difference(two), "");
}

/// Owners of spread state meet inside the parts of a fused weight.
TEST(GroupedLayoutSplit, SpreadStateWithinTensors) {
  Settings serial = grouped(true, {8, 2, 4}, DType::bf16);
  serial.model.set_num_layers(1);
  serial.model.hidden = 192;
  serial.model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.head_dim = 24; });
  serial.split.data_shards = 4;
  serial.micro_batch = 1;
  serial.batch.full = 4;
  const GroupedRun run(serial);
  for (const parallel::Layout& layout :
       {parallel::Layout{.data = 4}, parallel::Layout{.tensor = 2, .data = 2},
        parallel::Layout{.tensor = 4, .data = 4}}) {
    run.expect_under(fmt::format("t{} d{}", layout.tensor, layout.data), layout, 1);
  }
}

TEST(GroupedLayoutSplit, RefusesWhatCutsNoHeadEvenly) {
  const auto fault = [](const GroupedHeads& sizes, int ranks) -> std::string {
    Settings s = grouped(true, sizes, DType::f32);
    s.layout.tensor = ranks;
    try {
      check(s, "toy");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault({8, 2, 4}, 4), "");
  Settings whole = grouped(true, {8, 1, 4}, DType::f32);
  EXPECT_EQ(models::split_fault(whole.model, 4), "");
  whole.model.layers[1].attention.qk_norm = layers::QkNorm::whole;
  EXPECT_NE(models::split_fault(whole.model, 4).find("the 6 weights of the norm over all keys"),
            std::string::npos);
  EXPECT_NE(fault({12, 4, 6}, 1).find("neither divides the other"), std::string::npos);
  EXPECT_NE(fault({8, 1, 8}, 1).find("the 12 rows of keys and values"), std::string::npos);
  EXPECT_NE(fault({6, 3, 6, 18}, 2).find("parallel.tensor 2 and model.kv_heads 3"),
            std::string::npos);
}

}  // namespace
}  // namespace megalith::engine
