// SPDX-License-Identifier: Apache-2.0
// Training in f16: the same bits and the same decisions of the loss scale under every layout, with
// steps that overflow on the way, and after a resume in the middle of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/saver.h"
#include "checkpoint/step_folders.h"
#include "comm/backends.h"
#include "data/test_corpus.h"
#include "engine/state.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::in_f16;
using megalith::testing::LogicalState;
using megalith::testing::run_toy;
using megalith::testing::SerialRun;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;
using megalith::testing::ToyRun;
using megalith::testing::Variant;

constexpr int kSteps = 8;

std::vector<Variant> variants() {
  std::vector<Variant> all;
  all.push_back({"gpt2", in_f16(toy_settings())});
  all.push_back({"llama, documents", in_f16(testing::toy_llama_settings())});
  all.back().settings.ragged = true;
  all.back().settings.model.head.softcap = 5;
  all.push_back({"materialised, weights in f32", in_f16(toy_settings())});
  testing::set_materialised(all.back().settings.model);
  all.back().settings.weights = DType::f32;
  all.push_back({"relative positions", in_f16(testing::toy_relative_settings())});
  testing::set_kv_heads(all.back().settings.model, 2);
  all.push_back({"two stacks", in_f16(testing::toy_encoder_decoder_settings())});
  all.push_back({"shared weights", in_f16(toy_settings())});
  all.back().settings.model.layer_groups = 1;
  return all;
}

class F16Layout : public ::testing::TestWithParam<int> {};

TEST_P(F16Layout, EveryLayout) {
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

/// What the comparisons above are worth: steps overflow, others grow the scale.
TEST_P(F16Layout, TheScaleShrinksAndGrowsOnTheWay) {
  ToyRun run;
  run_toy(variants()[static_cast<size_t>(GetParam())].settings, kSteps, {}, run);
  ASSERT_EQ(run.loss_scale.size(), size_t{kSteps});
  int smaller = 0, larger = 0;
  for (size_t step = 0; step + 1 < run.loss_scale.size(); ++step) {
    const double change = run.loss_scale[step + 1] / run.loss_scale[step];
    EXPECT_EQ(change < 1, !run.applied[step]) << step;
    EXPECT_EQ(std::isfinite(run.grad_norm[step]), run.applied[step]) << step;
    smaller += change == 0.5 ? 1 : 0;
    larger += change == 2 ? 1 : 0;
  }
  EXPECT_GE(smaller, 1);
  EXPECT_GE(larger, 1);
}

INSTANTIATE_TEST_SUITE_P(All, F16Layout,
                         ::testing::Range(0, static_cast<int>(std::size(variants()))));

TEST(F16Training, EveryInstructionSetHasTheSameBits) {
  const SerialRun serial(in_f16(toy_settings()), kSteps);
  for (const auto isa : {device::Isa::avx2, device::Isa::avx512}) {
    if (device::detect_isa() < isa) continue;
    EXPECT_EQ(serial.difference(in_f16(toy_settings()), {.threads = 3, .isa = isa}), "");
  }
}

/// A scale is a power of two: where nothing overflows or vanishes in f16, it moves no bit.
TEST(F16Training, TheScaleMovesNoBit) {
  Settings settings = in_f16(toy_settings());
  settings.activations = DType::f32;  // of which nothing is rounded to f16
  settings.loss_scale = {.dynamic = false, .initial = 1};
  ToyRun one, other;
  run_toy(settings, 4, {}, one);
  settings.loss_scale->initial = 0x1p15f;
  run_toy(settings, 4, {}, other);
  one.loss_scale.clear();
  other.loss_scale.clear();
  EXPECT_EQ(difference(one, other), "");
}

TEST(F16Training, LearnsAsF32Does) {
  constexpr int kLong = 40;
  Settings settings = toy_settings();
  settings.model.dropout = 0;
  ToyRun reference, run;
  run_toy(settings, kLong, {}, reference);
  settings.weights = settings.activations = DType::f16;
  settings.loss_scale.emplace();
  run_toy(settings, kLong, {}, run);
  EXPECT_NE(run.loss.front(), reference.loss.front());
  EXPECT_NEAR(run.loss.front(), reference.loss.front(), 1e-3 * reference.loss.front());
  EXPECT_NEAR(run.loss.back(), reference.loss.back(), 0.02 * reference.loss.back());
  EXPECT_LT(run.loss.back(), run.loss.front() - 0.5);
}

/// Steps [first, last] of a rank's engine; returns how many changed nothing, `skipped` before them.
int64_t run_steps(Engine& engine, int64_t first, int64_t last, int64_t skipped) {
  const Settings& settings = engine.settings();
  for (int64_t step = first; step <= last; ++step) {
    const StepResult result =
        engine.step(step, 1e-2, toy_micro_batches(settings, step, engine.mesh().at().data),
                    toy_weight(settings, step), skipped);
    if (!result.applied) ++skipped;
  }
  return skipped;
}

class F16Resume : public ::testing::Test {
 protected:
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

  Settings settings_ = in_f16(toy_settings());
  data::TemporaryFolder folder_;
};

TEST_F(F16Resume, InAnotherLayoutAfterEveryStep) {
  LogicalState expected;
  nlohmann::json scale;
  on_ranks({}, [&](Engine& engine, comm::Communicator&) {
    run_steps(engine, 1, kSteps, 0);
    expected.add(engine);
    scale = engine.loss_scaler()->to_json();
  });
  for (const int64_t saved : {1, 2, 5}) {
    on_ranks(
        {.tensor = 2, .data = 2, .sequence = true}, [&](Engine& engine, comm::Communicator& world) {
          const int64_t skipped = run_steps(engine, 1, saved, 0);
          checkpoint::Saver saver(folder_.path(), {.asynchronous = false}, &world);
          ShardedOptimizerState spread(engine);
          saver.save(engine.device(), saved, state_tensors(engine, spread),
                     {{"loss_scale", engine.loss_scaler()->to_json()}, {"skipped", skipped}}, {});
          saver.wait();
        });
    const auto found = checkpoint::find_newest(folder_.path(), true);
    ASSERT_TRUE(found.has_value());
    for (const parallel::Layout& layout : {parallel::Layout{}, parallel::Layout{.pipeline = 3}}) {
      LogicalState resumed;
      on_ranks(layout, [&](Engine& engine, comm::Communicator&) {
        load_state(*found, engine);
        engine.loss_scaler()->restore(found->state().at("loss_scale"));
        run_steps(engine, saved + 1, kSteps, found->state().at("skipped").get<int64_t>());
        resumed.add(engine);
        EXPECT_EQ(engine.loss_scaler()->to_json(), scale);
      });
      EXPECT_EQ(difference(expected, resumed), "") << saved << " " << layout.num_ranks();
    }
  }
}

/// A step whose input counts for nothing is skipped as everywhere, and no matter of the scale.
TEST_F(F16Resume, ReplayAndValidationLeaveTheScaleAlone) {
  on_ranks({}, [&](Engine& engine, comm::Communicator&) {
    run_steps(engine, 1, 2, 0);
    const nlohmann::json before = engine.loss_scaler()->to_json();
    const auto batches = toy_micro_batches(settings_, 3, 0);
    engine.replay(3, batches, 1, [](std::string_view, ConstView) {});
    engine.sample_losses(batches.front());
    EXPECT_EQ(engine.loss_scaler()->to_json(), before);
    const StepResult result = engine.step(3, 1e-2, batches, 0);
    EXPECT_FALSE(result.applied);
    EXPECT_FALSE(result.overflowed);
  });
}

}  // namespace
}  // namespace megalith::engine
