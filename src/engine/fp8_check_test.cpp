// SPDX-License-Identifier: Apache-2.0
// Checks of products in 8 bits: the same numbers under every layout, without a trace, and far off
// where scales are wrong.
#include <gtest/gtest.h>

#include "comm/backends.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::LogicalState;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;
using precision::GuardCheck;
using precision::Operand;
using precision::ScalingPolicy;

Settings checked_settings(ScalingPolicy policy = ScalingPolicy::delayed) {
  Settings settings = toy_settings();
  settings.weights = settings.activations = DType::bf16;
  settings.fp8.emplace();
  settings.fp8->options.scaling = precision::ScalingOptions::of(policy);
  settings.fp8->guard.every = 1;
  return settings;
}

using Change = std::function<void(Engine&)>;

/// Steps 1 to `steps`; then, behind `change`, what a check before the next step finds.
GuardCheck check_after(const Settings& settings, int64_t steps, const Change& change = {},
                       LogicalState* state = nullptr) {
  std::vector<GuardCheck> checks(static_cast<size_t>(settings.layout.num_ranks()));
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    world.set_device(device.get());
    const parallel::Mesh mesh(world, settings.layout);
    Engine engine(settings, *device, mesh);
    engine.initialise();
    for (int64_t step = 1; step <= steps; ++step)
      engine.step(step, 1e-2, toy_micro_batches(settings, step, mesh.at().data),
                  toy_weight(settings, step));
    if (change) change(engine);
    checks[static_cast<size_t>(world.rank())] =
        engine.check_fp8(steps + 1, toy_micro_batches(settings, steps + 1, mesh.at().data));
    if (state != nullptr) state->add(engine);
    world.set_device(nullptr);
  });
  const auto numbers = [](const GuardCheck& c) {
    std::vector<double> all{c.loss, c.wide_loss, c.cosine};
    for (const precision::OperandShares& share : c.shares) {
      all.push_back(share.saturated);
      all.push_back(share.flushed);
    }
    return all;
  };
  for (const GuardCheck& other : checks) EXPECT_EQ(numbers(checks.front()), numbers(other));
  return checks.front();
}

TEST(Fp8Check, FindsTheSameUnderEveryLayout) {
  for (const auto policy : {ScalingPolicy::delayed, ScalingPolicy::current, ScalingPolicy::block}) {
    const Settings serial = checked_settings(policy);
    const GuardCheck expected = check_after(serial, 3);
    EXPECT_LT(expected.difference(), 0.02);
    EXPECT_GT(expected.cosine, 0.95);
    EXPECT_LT(expected.cosine, 1);
    EXPECT_EQ(expected.shares.empty(), policy == ScalingPolicy::block);
    // Gradients are those of the step, whose magnitudes the scales were made for.
    for (const precision::OperandShares& share : expected.shares) EXPECT_LT(share.saturated, 0.01);
    for (const parallel::Layout& layout :
         {parallel::Layout{.tensor = 2, .sequence = true}, parallel::Layout{.pipeline = 3},
          parallel::Layout{.data = 2}, parallel::Layout{2, 2, 2}}) {
      Settings other = serial;
      other.layout = layout;
      other.zero = layout.data > 1 ? 1 : 0;
      other.micro_batch = layout.pipeline > 1 ? 1 : 4;
      other.recompute.mode = layers::Recompute::full;
      const GuardCheck check = check_after(other, 3);
      EXPECT_EQ(check.loss, expected.loss) << layout.num_ranks();
      EXPECT_EQ(check.wide_loss, expected.wide_loss) << layout.num_ranks();
      EXPECT_EQ(check.cosine, expected.cosine) << layout.num_ranks();
      ASSERT_EQ(check.shares.size(), expected.shares.size());
      for (size_t i = 0; i < check.shares.size(); ++i) {
        EXPECT_EQ(check.shares[i].saturated, expected.shares[i].saturated) << i;
        EXPECT_EQ(check.shares[i].flushed, expected.shares[i].flushed) << i;
      }
    }
  }
}

TEST(Fp8Check, LeavesNoTrace) {
  const Settings settings = checked_settings();
  LogicalState checked, unchecked;
  check_after(settings, 3, {}, &checked);
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    world.set_device(device.get());
    const parallel::Mesh mesh(world, settings.layout);
    Engine engine(settings, *device, mesh);
    engine.initialise();
    for (int64_t step = 1; step <= 3; ++step)
      engine.step(step, 1e-2, toy_micro_batches(settings, step, 0), toy_weight(settings, step));
    unchecked.add(engine);
    world.set_device(nullptr);
  });
  EXPECT_EQ(difference(checked, unchecked), "");
}

TEST(Fp8Check, ProductsIn16BitsHaveNoDifference) {
  const GuardCheck check = check_after(checked_settings(), 3, [](Engine& engine) {
    for (size_t i = 0; i < engine.fp8()->products().size(); ++i) engine.fp8()->set_wide(i, true);
  });
  EXPECT_EQ(check.difference(), 0);
  EXPECT_NEAR(check.cosine, 1, 1e-12);
}

/// Scales that are 16 times too large: of output gradients no loss shows them.
TEST(Fp8Check, SeesScalesThatAreWrong) {
  const auto wrong = [](Operand operand) {
    return [operand](Engine& engine) {
      const precision::Scaling& scaling = engine.fp8()->scaling(operand);
      for (int64_t n = 0; n < scaling.scale().size(0); ++n) scaling.scale().as<float>()[n] *= 16;
      engine.fp8()->restored();
    };
  };
  const GuardCheck inputs = check_after(checked_settings(), 3, wrong(Operand::input));
  EXPECT_LT(inputs.cosine, 0.9);
  const GuardCheck gradients = check_after(checked_settings(), 3, wrong(Operand::output_gradient));
  EXPECT_LT(gradients.difference(), 0.02);
  EXPECT_LT(gradients.cosine, 0.9);
  const GuardCheck shares = check_after(checked_settings(), 3, wrong(Operand::weight));
  for (const precision::OperandShares& share : shares.shares) EXPECT_GT(share.saturated, 0.01);
}

}  // namespace
}  // namespace megalith::engine
