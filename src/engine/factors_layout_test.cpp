// SPDX-License-Identifier: Apache-2.0
// Low-rank factors that train beside a model's products: no layout, micro-batch or recomputation
// changes a bit of them, the weights stay as they were, and what a step computes is what an adapter
// of the same values gives.
#include <gtest/gtest.h>

#include "comm/backends.h"
#include "engine/inference_engine.h"
#include "engine/state.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/low_rank_blocks.h"
#include "low_rank/factor_columns.h"
#include "testing/toy_adapter.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

constexpr int kSteps = 4;

Settings with_factors(Settings settings, double dropout = 0) {
  settings.factors =
      low_rank::factors_of(testing::toy_factors(settings.model, dropout), settings.masters);
  return settings;
}
Settings grouped() {  // more tensor shards than key/value heads
  Settings settings = testing::toy_llama_settings();
  testing::set_kv_heads(settings.model, 2);
  settings.split.tensor_shards = 4;
  return settings;
}

using testing::Variant;

std::vector<Variant> variants() {
  std::vector<Variant> all;
  all.push_back({"f32", with_factors(testing::toy_settings())});
  all.push_back({"dropout", with_factors(testing::toy_settings(), 0.2)});
  all.push_back({"llama f32", with_factors(testing::toy_llama_settings())});
  all.push_back({"grouped keys", with_factors(grouped())});
  Settings narrow = testing::toy_llama_settings();
  narrow.weights = narrow.activations = DType::bf16;
  narrow.ragged = true;
  all.push_back({"llama bf16", with_factors(narrow)});
  // The weights stay, and so does what is kept of inputs; gradients have scales all the same.
  using precision::ScalingPolicy;
  all.push_back(
      {"delayed, dropout",
       with_factors(testing::in_fp8(testing::toy_settings(), ScalingPolicy::delayed), 0.2)});
  for (const auto policy : {ScalingPolicy::current, ScalingPolicy::block})
    all.push_back({policy == ScalingPolicy::current ? "current" : "block",
                   with_factors(testing::in_fp8(testing::toy_llama_settings(), policy))});
  return all;
}

void expect_same_under(const parallel::Layout& layout, int zero = 0) {
  for (const Variant& variant : variants()) {
    if (layout.sequence && std::string_view(variant.name).ends_with("dropout"))
      continue;  // refused
    Settings other = variant.settings;
    other.layout = layout;
    other.zero = zero;
    EXPECT_EQ(testing::SerialRun(variant.settings, kSteps).difference(other), "") << variant.name;
  }
}

TEST(FactorsLayout, TensorRanks) {
  expect_same_under({.tensor = 2});
  expect_same_under({.tensor = 4});
}
TEST(FactorsLayout, PipelineRanks) { expect_same_under({.pipeline = 3}); }
TEST(FactorsLayout, DataRanks) { expect_same_under({.data = 2}); }
TEST(FactorsLayout, SequenceParallel) {
  expect_same_under({.tensor = 2, .sequence = true});
  expect_same_under({.tensor = 4, .sequence = true});
}
TEST(FactorsLayout, SpreadState) {
  expect_same_under({.data = 2}, 1);
  expect_same_under({.tensor = 2, .pipeline = 3, .data = 2, .sequence = true}, 1);
}

TEST(FactorsLayout, RecomputationThreadsAndMicroBatches) {
  for (const Variant& variant : variants()) {
    const testing::SerialRun serial(variant.settings, kSteps);
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      Settings other = variant.settings;
      other.recompute.mode = mode;
      other.micro_batch = 1;
      EXPECT_EQ(serial.difference(other, {.threads = 2}), "") << variant.name;
    }
  }
}

/// What one rank has after some steps: values by name, and memory by class.
struct After {
  std::map<std::string, std::vector<float>> weights;
  std::vector<double> losses;
};
After after(const Settings& settings, int steps) {
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  Engine engine(settings, *device, mesh);
  engine.initialise();
  After result;
  for (int step = 1; step <= steps; ++step)
    result.losses.push_back(engine
                                .step(step, 0.01, testing::toy_micro_batches(settings, step, 0),
                                      testing::toy_weight(settings, step))
                                .loss);
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const auto* values = parameter.compute().view.as<float>();
    result.weights[parameter.name()].assign(values, values + parameter.local_elements());
  }
  return result;
}

TEST(Factors, TheWeightsStayAndOnlyModulesMove) {
  const Settings settings = with_factors(testing::toy_llama_settings());
  const After before = after(settings, 0), behind = after(settings, 3);
  for (const auto& [name, values] : behind.weights) {
    if (low_rank::is_factor(name)) {
      EXPECT_NE(values, before.weights.at(name)) << name;
    } else {
      EXPECT_EQ(values, before.weights.at(name)) << name;
    }
  }
  // Keys have no module: their columns of the second factor stay zero.
  const auto products = testing::toy_factors(settings.model);
  const auto& ranks = products->products.at("layers.0.attention.qkv.weight");
  const std::vector<float>& b_PO = behind.weights.at("layers.0.attention.qkv.lora_b");
  const size_t outputs = ranks.by_output.size();
  for (size_t o = 0; o < outputs; ++o)
    for (size_t r = 0; r < b_PO.size() / outputs; ++r)
      EXPECT_EQ(b_PO[r * outputs + o] == 0, ranks.by_output[o].empty()) << o;
  // They begin as the model without them.
  EXPECT_EQ(behind.losses[0], after(testing::toy_llama_settings(), 1).losses[0]);
}

TEST(Factors, AStateHoldsThemAlone) {
  const Settings settings = with_factors(testing::toy_settings());
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  Engine engine(settings, *device, mesh);
  for (const StateTensor& tensor : state_list(engine))
    EXPECT_TRUE(low_rank::is_factor(tensor.name)) << tensor.name;
  EXPECT_EQ(state_list(engine).size(), 3 * 2 * testing::toy_adapter_ranks(settings.model).size());
}

/// The losses of a step are those of the weights with the adapter of the same values beside them
/// (layers/adapter.h), to the bit.
TEST(Factors, AreTrainedAsTheyAreServed) {
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    settings.model.dropout = 0;
    settings.layout = {};
    const auto products = testing::toy_factors(settings.model);
    const Settings trained = with_factors(settings);
    const auto device = device::make_cpu_device(1);
    const auto world = comm::make_self_communicator(*device);
    const parallel::Mesh mesh(*world, settings.layout);
    Engine engine(trained, *device, mesh);
    engine.initialise();
    for (int step = 1; step <= 2; ++step)
      engine.step(step, 0.01, testing::toy_micro_batches(settings, step, 0),
                  testing::toy_weight(settings, step));
    Engine plain(settings, *device, mesh);
    plain.initialise();
    layers::AdapterRanks ranks;
    for (const auto& [weight, product] : products->products)
      ranks.emplace(
          weight, layers::AdapterRank(product.rank,
                                      kernels::packed_rank(kernels::blocks_of(product.by_output))));
    layers::Adapter adapter(plain.parameters(), *device, ranks);
    for (auto& [weight, factors] : adapter.factors()) {
      const auto view = [&](const std::string& name) {
        return ConstView(engine.parameters().find(name)->compute());
      };
      const ConstView a_RI = view(low_rank::first_factor(weight));
      for (int64_t r = 0; r < a_RI.size(0); ++r)
        device->copy(factors.a_IR.view.columns(r, 1),
                     a_RI.rows(r, 1).reshape(Shape{a_RI.size(1), 1}));
      device->copy(factors.b_PO, view(low_rank::second_factor(weight)));
      kernels::Exec exec(*device);
      kernels::scale(exec, factors.b_PO, static_cast<float>(products->scale));
      factors.blocks = kernels::blocks_of(products->products.at(weight).by_output);
    }
    plain.model().set_adapter(&adapter);
    InferenceEngine served(plain.model()), tuned(engine.model());
    const std::vector<int32_t> ids = {1, 5, 2, 9, 3, 3, 8};
    EXPECT_EQ(served.score(ids), tuned.score(ids));
    plain.model().set_adapter(nullptr);
    EXPECT_NE(served.score(ids), tuned.score(ids));
  }
}

}  // namespace
}  // namespace megalith::engine
