// SPDX-License-Identifier: Apache-2.0
// Times of traced kernels against a traced step's own records.
#include "costs/traced_parts.h"

#include <gtest/gtest.h>

#include "account/plan.h"
#include "account/traced_step.h"
#include "comm/backends.h"
#include "costs/step_time.h"
#include "families/families.h"

namespace megalith::costs {
namespace {

using clusters::ProductType;

constexpr device::Target kTarget{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};

engine::Settings settings(int tensor, int pipeline, int data) {
  engine::Settings s;
  s.model = models::gpt2({.layers = 4, .hidden = 64, .heads = 4, .context = 32, .vocab = 128});
  s.split = {4, data};
  s.layout.tensor = tensor;
  s.layout.pipeline = pipeline;
  s.layout.data = data;
  s.micro_batch = 2;
  s.batch.full = 8;
  return s;
}

/// Two kernels with rates of their own, the rest by the peak of products alone; a second is an
/// operation of those.
clusters::Cluster machine() {
  clusters::Cluster c;
  c.name = "counting";
  c.device.bandwidth = 1e300;
  c.device.products = {{.type = ProductType::f32, .peak = 1, .share = 1, .depth = 0}};
  c.device.kernels = {{"linear_forward", ProductType::f32, 0, 0.5, 0},
                      {"linear_backward_weight", ProductType::f32, 1e6, 0, 0}};
  c.node.devices = 8;
  c.links = {{.name = "wire", .devices = 0, .bandwidth = 2, .latency_seconds = 1e-3}};
  return c;
}

/// Kernels and wire of the step of one rank, kernel by kernel at those rates.
RecordedTime step_of(const engine::Settings& s, const clusters::Cluster& cluster) {
  const auto device = device::make_trace_device(kTarget);
  device::Recorder recorder;
  device->set_recorder(&recorder);
  const auto world = comm::make_traced_communicator(*device, 0, s.layout.num_ranks());
  account::traced_step(s, *device, *world, {});
  return KernelTime(cluster, ProductType::f32).of(recorder.records(), {s.layout.num_ranks(), 1});
}

TEST(TracedParts, PartsSumToTheTracedStep) {
  const clusters::Cluster cluster = machine();
  for (const auto& [tensor, data] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    for (const auto mode :
         {layers::Recompute::none, layers::Recompute::selective, layers::Recompute::full}) {
      engine::Settings s = settings(tensor, 1, data);
      s.recompute = {mode, 0};
      const RecordedTime whole = step_of(s, cluster);
      const StepTime step = StepTimes(s, cluster).simulated(s);
      EXPECT_NEAR(step.seconds / (whole.kernels + whole.wire), 1, 1e-3) << tensor << " " << data;
      if (mode == layers::Recompute::none && whole.wire > 0) {
        EXPECT_NEAR((step.parts.wire + step.parts.gradients) / whole.wire, 1, 0.02)
            << tensor << " " << data;
      }
    }
  }
}

TEST(TracedParts, RatesAreByNameTypeAndWork) {
  const clusters::Cluster cluster = machine();
  const KernelTime time(cluster, ProductType::f32);
  device::Record record;
  record.name = "linear_forward";
  record.calls = 3;
  record.work.flops = 10;
  EXPECT_DOUBLE_EQ(time.of({&record, 1}, {}).kernels, 20);
  record.name = "linear_backward_weight";
  EXPECT_DOUBLE_EQ(time.of({&record, 1}, {}).kernels, 3e6);
  record.name = "something else";
  EXPECT_DOUBLE_EQ(time.of({&record, 1}, {}).kernels, 10);
  EXPECT_EQ(time.not_measured({&record, 1}), std::set<std::string>{"something else"});
  record = {};
  record.name = "all_gather";
  record.calls = 2;
  record.work.bytes_wire = 100;
  const RecordedTime sent = time.of({&record, 1}, {2, 1});
  EXPECT_EQ(sent.kernels, 0);
  EXPECT_DOUBLE_EQ(sent.wire, 2e-3 + 50);
}

/// Four ranks on two cores take twice as long where all are at work, and where stages wait for each
/// other less.
TEST(TracedParts, MoreRanksThanCoresShareThem) {
  const clusters::Cluster own = machine();
  clusters::Cluster shared = own;
  shared.node.at_once = 2;
  const auto ratio = [&](const engine::Settings& s) {
    return StepTimes(s, shared).simulated(s).seconds / StepTimes(s, own).simulated(s).seconds;
  };
  EXPECT_NEAR(ratio(settings(2, 1, 1)), 1, 1e-12);
  EXPECT_NEAR(ratio(settings(4, 1, 1)), 2, 1e-12);
  EXPECT_NEAR(ratio(settings(1, 1, 4)), 2, 1e-12);
  const double stages = ratio(settings(1, 4, 1));
  EXPECT_GT(stages, 1);
  EXPECT_LT(stages, 1.9);
  for (const auto& s : {settings(4, 1, 1), settings(1, 4, 1), settings(2, 2, 1)}) {
    const StepTime least = StepTimes(s, shared).least(s), run = StepTimes(s, shared).simulated(s);
    EXPECT_LE(least.seconds, run.seconds * (1 + 1e-12));
    EXPECT_DOUBLE_EQ(run.parts.total(), run.seconds);
    EXPECT_GE(run.parts.bubble, -1e-9 * run.seconds);
  }
}

}  // namespace
}  // namespace megalith::costs
