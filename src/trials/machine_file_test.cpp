// SPDX-License-Identifier: Apache-2.0
#include "trials/machine_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "account/layout_plan.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "costs/traced_parts.h"
#include "device/target.h"
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
  EXPECT_EQ(c.joining(2).latency_seconds, 2e-6);
  EXPECT_EQ(c.joining(4).latency_seconds, 30e-6);
  EXPECT_LE(c.joining(4).bandwidth, c.joining(2).bandwidth);
  EXPECT_EQ(c.sharing(2), 1);
  EXPECT_EQ(c.sharing(4), 2);
}

TEST(MachineFile, CoresThatCannotBeSharedAreRefused) {
  const int cores = available_cores();
  if (cores < 3) GTEST_SKIP() << "every number of ranks up to the cores divides them";
  EXPECT_THROW(measure_machine({.ranks = cores - 1, .samples = 1, .progress = {}}), UserError);
}

TEST(CalibrationModels, AreOfSeveralFamiliesAndOfTwoRanks) {
  const auto models = calibration_models();
  std::set<std::string> families;
  for (const CalibrationModel& model : models) families.insert(model.settings.model.family);
  EXPECT_GE(families.size(), 5u);
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
