// SPDX-License-Identifier: Apache-2.0
// Products in 8 bits have the same bits under every layout: magnitudes are of logical tensors,
// blocks lie within canonical shards and samples, and gradients of weights add up sample by sample.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/saver.h"
#include "checkpoint/step_folders.h"
#include "comm/backends.h"
#include "data/test_corpus.h"
#include "engine/state.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::in_fp8;
using megalith::testing::LogicalState;
using megalith::testing::run_toy;
using megalith::testing::SerialRun;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;
using megalith::testing::ToyRun;
using megalith::testing::Variant;
using precision::ScalingPolicy;

constexpr int kSteps = 6;

/// Wide enough for blocks of 32 in each of its four tensor shards.
Settings wide_settings(int64_t kv_heads) {
  Settings settings = toy_settings();
  const double dropout = settings.model.dropout;
  settings.model = models::llama({.layers = 3,
                                  .hidden = 128,
                                  .heads = 4,
                                  .kv_heads = kv_heads,
                                  .head_dim = 64,
                                  .ffn = 128,
                                  .context = 32,
                                  .vocab = 100});
  settings.model.dropout = dropout;
  settings.model.init_std = 0.1;
  return settings;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto add = [&](const char* name, const Settings& settings) -> Settings& {
    return all.emplace_back(Variant{name, settings}).settings;
  };
  add("delayed", in_fp8(toy_settings(), ScalingPolicy::delayed));
  Settings& recent =
      add("delayed, most recent, e4m3, a margin", in_fp8(toy_settings(), ScalingPolicy::delayed));
  recent.fp8->options.scaling.choice = kernels::AmaxChoice::most_recent;
  recent.fp8->options.scaling.format = precision::Fp8Format::e4m3;
  recent.fp8->options.scaling.margin = 1;
  Settings& documents =
      add("current, documents", in_fp8(testing::toy_llama_settings(), ScalingPolicy::current));
  documents.ragged = true;
  add("unscaled", in_fp8(toy_settings(), ScalingPolicy::unscaled));
  add("current, shared weights", in_fp8(toy_settings(), ScalingPolicy::current))
      .model.layer_groups = 1;
  add("block", in_fp8(testing::toy_llama_settings(), ScalingPolicy::block)).ragged = true;
  add("block, of more than one", in_fp8(wide_settings(4), ScalingPolicy::block));
  add("mx", in_fp8(wide_settings(4), ScalingPolicy::mx));
  add("mx, heads that shards share", in_fp8(wide_settings(2), ScalingPolicy::mx));
  add("delayed, heads that shards share", in_fp8(wide_settings(1), ScalingPolicy::delayed));
  Settings& ends = add("delayed, first and last layer wide, gradients of weights wide",
                       in_fp8(toy_settings(), ScalingPolicy::delayed));
  ends.fp8->first_wide = ends.fp8->last_wide = 1;
  ends.fp8->options.weight_gradients = false;
  add("delayed, two stacks",
      in_fp8(testing::toy_encoder_decoder_settings(), ScalingPolicy::delayed));
  add("current, two stacks, f32 between products",
      in_fp8(testing::toy_encoder_decoder_settings(), ScalingPolicy::current))
      .activations = DType::f32;
  return all;
}

class Fp8Layout : public ::testing::TestWithParam<int> {};

TEST_P(Fp8Layout, EveryLayout) {
  using layers::Recompute;
  struct Case {
    parallel::Layout layout;
    int zero = 0;
    int64_t micro_batch = 2;
    Recompute recompute = Recompute::none;
    int threads = 1;
  };
  const std::vector<Case> cases = {
      {{}, 0, 1, Recompute::full},
      {{}, 0, 4, Recompute::selective, 2},
      {{.tensor = 2}},
      {{.tensor = 4}, 0, 4},
      {{.tensor = 2, .sequence = true}, 0, 4},
      {{.tensor = 4, .sequence = true}, 0, 2, Recompute::selective},
      {{.pipeline = 2}, 0, 4},
      {{.pipeline = 3}, 0, 2, Recompute::full},
      {{.data = 2}, 0, 1},
      {{.data = 2}, 1, 2, Recompute::full},
      {{.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}, 1},
  };
  const Variant variant = variants()[static_cast<size_t>(GetParam())];
  SCOPED_TRACE(variant.name);
  const SerialRun serial(variant.settings, kSteps);
  for (const Case& each : cases) {
    const parallel::Layout& layout = each.layout;
    SCOPED_TRACE(fmt::format("tensor {}{}, pipeline {}, data {}, zero {}, micro-batches of {}",
                             layout.tensor, layout.sequence ? " and sequence" : "", layout.pipeline,
                             layout.data, each.zero, each.micro_batch));
    Settings other = variant.settings;
    other.layout = layout;
    other.zero = each.zero;
    other.micro_batch = each.micro_batch;
    other.recompute.mode = each.recompute;
    EXPECT_EQ(serial.difference(other, {.threads = each.threads}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fp8Layout,
                         ::testing::Range(0, static_cast<int>(std::size(variants()))));

TEST(Fp8Training, EveryInstructionSetHasTheSameBits) {
  for (const auto policy : {ScalingPolicy::delayed, ScalingPolicy::block}) {
    const Settings settings = in_fp8(toy_settings(), policy);
    const SerialRun serial(settings, 2);
    EXPECT_EQ(serial.difference(settings, {.threads = 3, .isa = device::Isa::avx2}), "");
  }
}

/// Each policy does something of its own, and learns as bf16 does.
TEST(Fp8Training, PoliciesDifferAndLearn) {
  constexpr int kLong = 40;
  Settings wide = wide_settings(4);
  wide.model.dropout = 0;
  wide.weights = wide.activations = DType::bf16;
  ToyRun reference;
  run_toy(wide, kLong, {}, reference);
  std::vector<double> first{reference.loss.front()};
  for (const auto policy :
       {ScalingPolicy::delayed, ScalingPolicy::current, ScalingPolicy::block, ScalingPolicy::mx}) {
    ToyRun run;
    run_toy(in_fp8(wide, policy), kLong, {}, run);
    // Numbers of one block's range round alike with any power of two, so mx may be as block is.
    if (policy != ScalingPolicy::mx) {
      EXPECT_EQ(std::ranges::count(first, run.loss.front()), 0) << static_cast<int>(policy);
    }
    first.push_back(run.loss.front());
    EXPECT_NEAR(run.loss.back(), reference.loss.back(), 0.1 * reference.loss.back())
        << static_cast<int>(policy);
    EXPECT_LT(run.loss.back(), run.loss.front() - 1);
  }
}

/// Steps [first, last] of a rank's engine.
void run_steps(Engine& engine, int64_t first, int64_t last) {
  const Settings& settings = engine.settings();
  for (int64_t step = first; step <= last; ++step)
    engine.step(step, 1e-2, toy_micro_batches(settings, step, engine.mesh().at().data),
                toy_weight(settings, step));
}

class Fp8Resume : public ::testing::Test {
 protected:
  /// `work(engine, world)` on each rank of the layout.
  template <typename Work>
  void on_ranks(const parallel::Layout& layout, const Work& work) {
    Settings settings = settings_;
    settings.layout = layout;
    settings.zero = layout.data > 1 ? 1 : 0;
    comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      world.set_device(device.get());
      const parallel::Mesh mesh(world, layout);
      Engine engine(settings, *device, mesh);
      engine.initialise();
      work(engine, world);
      world.set_device(nullptr);
    });
  }
  void save_after(const parallel::Layout& layout, int64_t steps) {
    on_ranks(layout, [&](Engine& engine, comm::Communicator& world) {
      run_steps(engine, 1, steps);
      checkpoint::Saver saver(folder_.path(), {.asynchronous = false}, &world);
      ShardedOptimizerState spread(engine);
      saver.save(engine.device(), steps, state_tensors(engine, spread), nlohmann::json::object(),
                 {});
      saver.wait();
    });
  }

  Settings settings_ = in_fp8(toy_settings(), ScalingPolicy::delayed);
  data::TemporaryFolder folder_;
};

TEST_F(Fp8Resume, InAnotherLayoutInTheMiddleOfAHistory) {
  LogicalState expected;
  on_ranks({}, [&](Engine& engine, comm::Communicator&) {
    run_steps(engine, 1, 5);
    expected.add(engine);
  });
  save_after({.tensor = 2, .data = 2, .sequence = true}, 2);
  const auto found = checkpoint::find_newest(folder_.path(), true);
  ASSERT_TRUE(found.has_value());
  for (const parallel::Layout& layout :
       {parallel::Layout{}, parallel::Layout{.pipeline = 3}, parallel::Layout{.data = 2}}) {
    LogicalState resumed;
    on_ranks(layout, [&](Engine& engine, comm::Communicator&) {
      load_state(*found, engine);
      run_steps(engine, 3, 5);
      resumed.add(engine);
    });
    EXPECT_EQ(difference(expected, resumed), "") << layout.num_ranks();
  }
}

/// Ranks that were sent codes of each other's weights: whatever happens between two steps, those of
/// the next one are of the weights as they then are.
TEST_F(Fp8Resume, OfSpreadStateInTheSameEngine) {
  for (const auto policy : {ScalingPolicy::delayed, ScalingPolicy::current}) {
    settings_ = in_fp8(toy_settings(), policy);
    LogicalState expected, resumed;
    on_ranks({}, [&](Engine& engine, comm::Communicator&) {
      run_steps(engine, 1, 5);
      expected.add(engine);
    });
    save_after({}, 2);
    const auto found = checkpoint::find_newest(folder_.path(), true);
    ASSERT_TRUE(found.has_value());
    on_ranks({.data = 2}, [&](Engine& engine, comm::Communicator&) {
      run_steps(engine, 1, 4);
      load_state(*found, engine);  // back, as a run that goes on without a bad step
      engine.complete_weights();   // which does not make codes of them
      run_steps(engine, 3, 3);
      const auto batches = toy_micro_batches(settings_, 4, engine.mesh().at().data);
      EXPECT_FALSE(engine.step(4, 1e-2, batches, 0).applied);
      engine.sample_losses(batches.front());
      run_steps(engine, 4, 4);
      engine.complete_weights();
      run_steps(engine, 5, 5);
      resumed.add(engine);
    });
    EXPECT_EQ(difference(expected, resumed), "");
  }
}

TEST_F(Fp8Resume, NamesScalesThatAreMissingOrOfAnotherShapeOrNoNumbers) {
  const auto expect_fault = [&](const char* named) {
    const auto found = checkpoint::find_newest(folder_.path(), true);
    ASSERT_TRUE(found.has_value());
    on_ranks({}, [&](Engine& engine, comm::Communicator&) {
      try {
        load_state(*found, engine);
        ADD_FAILURE() << "loaded";
      } catch (const IntegrityError& error) {
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
      }
    });
  };
  const Settings fp8 = settings_;
  settings_.fp8.reset();
  save_after({}, 1);
  settings_ = fp8;
  expect_fault("fp8.input.history is missing");
  save_after({}, 2);
  settings_.fp8->options.scaling.history = 5;
  expect_fault("fp8.input.history is f32 [3, 12], the recipe's model has f32 [5, 12]");
  settings_ = fp8;
  on_ranks({}, [&](Engine& engine, comm::Communicator& world) {
    engine.fp8()->scaling(precision::Operand::weight).scale().as<float>()[4] = NAN;
    checkpoint::Saver saver(folder_.path(), {.asynchronous = false}, &world);
    ShardedOptimizerState spread(engine);
    saver.save(engine.device(), 3, state_tensors(engine, spread), nlohmann::json::object(), {});
    saver.wait();
  });
  expect_fault("the scale of layers.1.attention.qkv.weight is nan");
}

/// What is not finite makes a step that changes nothing, and leaves no trace in the histories.
TEST_F(Fp8Resume, AStepThatChangesNothingLeavesNoTrace) {
  LogicalState expected, actual;
  on_ranks({}, [&](Engine& engine, comm::Communicator&) {
    run_steps(engine, 1, 2);
    expected.add(engine);
  });
  on_ranks({}, [&](Engine& engine, comm::Communicator&) {
    run_steps(engine, 1, 2);
    const auto batches = toy_micro_batches(settings_, 3, 0);
    EXPECT_FALSE(engine.step(3, 1e-2, batches, 0).applied);
    engine.replay(3, batches, 1, [](std::string_view, ConstView) {});
    engine.sample_losses(batches.front());
    actual.add(engine);
  });
  EXPECT_EQ(difference(expected, actual), "");
}

}  // namespace
}  // namespace megalith::engine
