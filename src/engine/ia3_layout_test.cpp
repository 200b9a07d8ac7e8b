// SPDX-License-Identifier: Apache-2.0
// Learned vectors that train beside a model's products: no layout, micro-batch or recomputation
// changes a bit of them, the weights stay as they were, and what a step computes is what an adapter
// of the same values gives.
#include <gtest/gtest.h>

#include "comm/backends.h"
#include "engine/inference_engine.h"
#include "engine/state.h"
#include "testing/toy_adapter.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

constexpr int kSteps = 4;
/// So large that vectors move far from one in a few steps.
constexpr double kRate = 0.1;

Settings with_vectors(Settings settings) {
  settings.factors = ia3::vectors_of(testing::toy_vectors(settings.model), settings.masters);
  settings.schedule.peak = kRate;
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
  all.push_back({"f32", with_vectors(testing::toy_settings())});
  all.push_back({"llama f32", with_vectors(testing::toy_llama_settings())});
  all.push_back({"grouped keys", with_vectors(grouped())});
  Settings narrow = testing::toy_llama_settings();
  narrow.weights = narrow.activations = DType::bf16;
  narrow.ragged = true;
  all.push_back({"llama bf16", with_vectors(narrow)});
  // Outputs are computed again in backward, from codes as in forward.
  using precision::ScalingPolicy;
  all.push_back(
      {"delayed", with_vectors(testing::in_fp8(testing::toy_settings(), ScalingPolicy::delayed))});
  for (const auto policy : {ScalingPolicy::current, ScalingPolicy::block})
    all.push_back({policy == ScalingPolicy::current ? "current" : "block",
                   with_vectors(testing::in_fp8(testing::toy_llama_settings(), policy))});
  return all;
}

void expect_same_under(const parallel::Layout& layout, int zero = 0) {
  for (const Variant& variant : variants()) {
    Settings other = variant.settings;
    other.layout = layout;
    other.zero = zero;
    EXPECT_EQ(testing::SerialRun(variant.settings, kSteps).difference(other), "") << variant.name;
  }
}

TEST(Ia3Layout, TensorRanks) {
  expect_same_under({.tensor = 2});
  expect_same_under({.tensor = 4});
}
TEST(Ia3Layout, PipelineRanks) { expect_same_under({.pipeline = 3}); }
TEST(Ia3Layout, DataRanks) { expect_same_under({.data = 2}); }
TEST(Ia3Layout, SequenceParallel) {
  expect_same_under({.tensor = 2, .sequence = true});
  expect_same_under({.tensor = 4, .sequence = true});
}
TEST(Ia3Layout, SpreadState) {
  expect_same_under({.data = 2}, 1);
  expect_same_under({.tensor = 2, .pipeline = 3, .data = 2, .sequence = true}, 1);
}

TEST(Ia3Layout, RecomputationThreadsAndMicroBatches) {
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

bool is_vector(const std::string& name) { return name.ends_with(".ia3_l"); }

/// What one rank has after some steps: values by name.
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
                                .step(step, kRate, testing::toy_micro_batches(settings, step, 0),
                                      testing::toy_weight(settings, step))
                                .loss);
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const auto* values = parameter.compute().view.as<float>();
    result.weights[parameter.name()].assign(values, values + parameter.local_elements());
  }
  return result;
}

TEST(Ia3, TheWeightsStayAndOnlyModulesMoveFromOne) {
  const Settings settings = with_vectors(testing::toy_llama_settings());
  const auto products = testing::toy_vectors(settings.model);
  const After before = after(settings, 0), behind = after(settings, 3);
  size_t moved = 0;
  for (const auto& [name, values] : behind.weights) {
    if (!is_vector(name)) {
      EXPECT_EQ(values, before.weights.at(name)) << name;
      continue;
    }
    const std::string weight = name.substr(0, name.rfind('.')) + ".weight";
    const std::vector<bool>& outputs = products->at(weight).outputs;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(before.weights.at(name)[i], 1) << name;
      EXPECT_EQ(values[i] != 1, outputs.empty() || outputs[i]) << name << " " << i;
      moved += values[i] != 1 ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 100u);
  // They begin as the model without them, and it learns.
  EXPECT_EQ(behind.losses[0], after(testing::toy_llama_settings(), 1).losses[0]);
}

TEST(Ia3, AStateHoldsThemAlone) {
  const Settings settings = with_vectors(testing::toy_settings());
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  Engine engine(settings, *device, mesh);
  for (const StateTensor& tensor : state_list(engine))
    EXPECT_NE(tensor.name.find(".ia3_l"), std::string::npos) << tensor.name;
  EXPECT_EQ(state_list(engine).size(), 3 * testing::toy_vectors(settings.model)->size());
}

/// The losses of a step are those of the weights with the adapter of the same values beside them
/// (layers/adapter.h), to the bit.
TEST(Ia3, AreTrainedAsTheyAreServed) {
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    settings.model.dropout = 0;
    settings.layout = {};
    const Settings trained = with_vectors(settings);
    const auto device = device::make_cpu_device(1);
    const auto world = comm::make_self_communicator(*device);
    const parallel::Mesh mesh(*world, settings.layout);
    Engine engine(trained, *device, mesh);
    engine.initialise();
    for (int step = 1; step <= 2; ++step)
      engine.step(step, kRate, testing::toy_micro_batches(settings, step, 0),
                  testing::toy_weight(settings, step));
    Engine plain(settings, *device, mesh);
    plain.initialise();
    layers::Adapter adapter(plain.parameters(), *device, testing::toy_vector_ranks(settings.model));
    for (auto& [weight, factors] : adapter.factors()) {
      const ConstView l = engine.parameters().find(ia3::vector_beside(weight))->compute();
      device->copy(factors.input_I.view.absent() ? factors.output_O : factors.input_I, l);
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
