// SPDX-License-Identifier: Apache-2.0
#include "trials/machine_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "account/layout_plan.h"
#include "account/traced_step.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "comm/backends.h"
#include "costs/traced_parts.h"
#include "device/target.h"
#include "engine/from_recipe.h"
#include "models/recipe_model.h"
#include "trials/calibration_models.h"
#include "trials/other_load.h"
#include "trials/placed_ranks.h"
#include "trials/timed_steps.h"

namespace megalith::trials {
namespace {

using clusters::ProductType;

MachineFigures figures() {
  MachineFigures f;
  f.ranks = 4;
  f.at_once = 2;
  f.rates.products = {{.type = ProductType::f32, .peak = 106.6e9, .share = 0.9876, .depth = 12.5},
                      {.type = ProductType::bf16, .peak = 200e9, .share = 0.5, .depth = 0}};
  f.rates.bandwidth = 11.8e9;
  f.gap_seconds = 1.06e-5;
  f.kernels = {{{"linear_forward", ProductType::f32, 1e-6, 100e9, 20e9}, 40, 0.05},
               {{"fill", ProductType::bf16, 0, 0, 30e9}, 3, 0.2}};
  f.serving = {{{"linear_forward.q8_0", ProductType::bf16, 1e-6, 0, 8e9, 2.5}, 20, 0.04},
               {{"linear_forward.q8_0", ProductType::bf16, 2e-6, 90e9, 0, 0}, 30, 0.03}};
  f.links = {{2, {2e-6, 12e9, 0.1}}, {4, {30e-6, 13e9, 0.2}}};
  return f;
}

/// What is written is what is read, with nothing faster outside than inside.
TEST(MachineFile, IsAClusterFile) {
  const MachineFigures f = figures();
  const clusters::Cluster c = clusters::parse_cluster(machine_yaml(f, "a test"), "here.yaml");
  EXPECT_EQ(c.devices(), 4);
  EXPECT_EQ(c.node.at_once, 2);
  EXPECT_EQ(c.device.cores, 1);
  EXPECT_EQ(c.device.name, device::cpu_name());
  EXPECT_EQ(c.device.memory, device::memory_bytes() / 4);
  EXPECT_NEAR(c.known(ProductType::f32).peak, 106.6e9, 1e6);
  EXPECT_NEAR(*c.known(ProductType::f32).share, 0.9876, 1e-4);
  EXPECT_NEAR(c.device.launch_seconds, 1.06e-5, 1e-8);
  const clusters::KernelRate* const linear = c.find_kernel("linear_forward", ProductType::f32);
  ASSERT_NE(linear, nullptr);
  EXPECT_NEAR(linear->seconds(2, 1e9, 1e9), 2e-6 + 0.01 + 0.05, 1e-6);
  EXPECT_EQ(c.find_kernel("linear_forward", ProductType::bf16), nullptr);
  const clusters::KernelRate* const row =
      c.find_serving("linear_forward.q8_0", ProductType::bf16, 2);
  ASSERT_NE(row, nullptr);
  EXPECT_NEAR(row->bandwidth, 8e9, 1e6);
  EXPECT_NEAR(row->most_intensity, 2.5, 1e-3);
  EXPECT_NEAR(c.find_serving("linear_forward.q8_0", ProductType::bf16, 3)->flops, 90e9, 1e6);
  EXPECT_EQ(c.joining(2).latency_seconds, 2e-6);
  EXPECT_EQ(c.joining(4).latency_seconds, 30e-6);
  EXPECT_LE(c.joining(4).bandwidth, c.joining(2).bandwidth);
  EXPECT_EQ(c.sharing(2), 1);
  EXPECT_EQ(c.sharing(4), 2);
}

TEST(MachineFile, CoresAreSharedEquallyOrNotAtAll) {
  const auto expect = [](int ranks, int at_once, int threads) {
    const SharedCores shared = share_cores(ranks, 8);
    EXPECT_EQ(shared.at_once, at_once) << ranks;
    EXPECT_EQ(shared.threads, threads) << ranks;
  };
  expect(0, 8, 1);
  expect(1, 1, 8);
  expect(4, 4, 2);
  expect(12, 8, 1);
  EXPECT_EQ(share_cores(0, 8).ranks, 8);
  // Ranks with a number of threads of their own leave cores over.
  const SharedCores one = share_cores(1, 8, 3);
  EXPECT_EQ(one.ranks, 1);
  EXPECT_EQ(one.at_once, 1);
  EXPECT_EQ(one.threads, 3);
  EXPECT_EQ(share_cores(0, 8, 3).ranks, 2);
  EXPECT_EQ(share_cores(5, 8, 3).at_once, 2);
  EXPECT_THROW(share_cores(1, 8, 9), UserError);
  for (const int ranks : {3, 5, 6, 7}) EXPECT_THROW(share_cores(ranks, 8), UserError) << ranks;
}

std::set<std::string> kernels_of(const engine::Settings& settings) {
  const account::Plan trace = account::trace(device::cpu_target(1), [&](device::Device& traced) {
    const auto world = comm::make_self_communicator(traced);
    account::traced_step(settings, traced, *world, {});
  });
  std::set<std::string> names;
  for (const device::Record& record : trace.records)
    if (!costs::is_transfer(record)) names.insert(record.name);
  return names;
}

engine::Settings common(const char* family, ProductType type) {
  config::Recipe r;
  r.model.family = family;
  r.model.layers = 2;
  r.model.hidden = 320;
  r.model.heads = 5;
  r.model.context = 96;
  r.model.vocab = 5000;
  r.model.dropout = std::string_view(family) == "llama" ? 0 : 0.1;
  r.train.steps = 10;
  if (std::string_view(family) == "bert") r.train.objective = config::Objective::masked;
  if (type == ProductType::bf16) {
    r.precision.parameters = config::Precision::bf16;
    r.precision.compute = config::Compute::bf16;
  }
  models::complete(r.model);
  config::resolve(r);
  return engine::settings_of(r, 5000);
}

/// The models that rates are fitted to run every kernel of those that people train first.
TEST(CalibrationModels, RunEveryKernelOfCommonModels) {
  for (const ProductType type : {ProductType::f32, ProductType::bf16}) {
    std::set<std::string> measured;
    for (const CalibrationModel& model : calibration_models())
      if (model.type == type) measured.merge(kernels_of(model.settings));
    EXPECT_GT(measured.size(), 20u);
    for (const char* const family : {"gpt2", "llama", "bert", "qwen3"})
      for (const std::string& kernel : kernels_of(common(family, type)))
        EXPECT_TRUE(measured.contains(kernel)) << kernel << " of " << family;
  }
  for (const CalibrationModel& model : calibration_layouts())
    EXPECT_EQ(model.settings.layout.num_ranks(), 2) << model.name;
}

/// Steps take the memory that is planned of them, on every rank.
TEST(TimedSteps, TakeTimeAndThePlannedMemory) {
  const CalibrationModel model = calibration_layouts().front();
  on_placed_ranks(2, 1, [&](comm::Communicator& world, device::Device& device) {
    const TimedSteps timed = timed_steps(world, device, model.settings, {.samples = 2});
    ASSERT_EQ(timed.seconds.size(), 2u);
    ASSERT_EQ(timed.other_load.size(), 2u);
    for (const double seconds : timed.seconds) EXPECT_GT(seconds, 0);
    int64_t planned = 0;
    for (const auto& rank : account::plan_memory(model.settings, device.target(), {}))
      planned = std::max(planned, rank.total);
    EXPECT_EQ(timed.memory.total, planned);
  });
}

void spin(double seconds) {
  const double end = monotonic_seconds() + seconds;
  while (monotonic_seconds() < end) continue;
}

/// What this process does is its own; what a child does is another's until it has ended.
TEST(OtherLoad, IsWhatOtherProcessesTake) {
  const double core = 1.0 / static_cast<double>(std::thread::hardware_concurrency());
  const OtherLoad own;
  spin(0.3);
  EXPECT_GT(own.own_share(), 0.1 * core);
  const OtherLoad load;
  const pid_t child = fork();
  if (child == 0) {
    spin(0.6);
    _exit(0);
  }
  spin(0.4);
  EXPECT_GT(load.share(), 0.1 * core);
  EXPECT_LE(load.share(), 1);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace megalith::trials
