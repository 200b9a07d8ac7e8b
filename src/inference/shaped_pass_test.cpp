// SPDX-License-Identifier: Apache-2.0
#include "inference/shaped_pass.h"

#include <gtest/gtest.h>

#include "comm/backends.h"
#include "device/recorder.h"
#include "testing/toy_model.h"

namespace megalith::inference {
namespace {

constexpr int64_t kContext = 64;

models::ModelSpec spec() {
  models::ModelSpec spec = testing::toy_settings().model;
  spec.context = kContext;
  return spec;
}

device::Work work_of(device::Device& device, std::span<const ShapedRows> rows) {
  InferenceModel model(spec(), device, {});
  for (parameters::Parameter& parameter : model.parameters().all())
    device.wait(device.fill_zero(parameter.mutable_compute()));
  ShapedPasses passes(model.engine(), 4, kContext);
  device::Recorder recorder;
  device.set_recorder(&recorder);
  passes.run(rows, [](std::span<const float>) {});
  device.set_recorder(nullptr);
  return recorder.total();
}

/// What a trace says of a pass is what one that computes does.
TEST(ShapedPasses, TracedAsTheyRun) {
  const std::vector<std::vector<ShapedRows>> shapes = {
      {{1, 40, 0}}, {{1, 1, 40}}, {{4, 1, 63}}, {{2, 16, 0, false}, {1, 1, 30}}};
  for (const auto& rows : shapes) {
    const auto real = device::make_cpu_device(1);
    const auto traced = device::make_trace_device(real->target());
    const device::Work a = work_of(*real, rows), b = work_of(*traced, rows);
    EXPECT_EQ(a.flops, b.flops);
    EXPECT_EQ(a.bytes_read, b.bytes_read);
    EXPECT_EQ(a.bytes_written, b.bytes_written);
    EXPECT_GT(a.flops, 0);
  }
}

TEST(ShapedPasses, WorkGrowsWithSequencesAndWhatTheyHaveRead) {
  const auto traced = device::make_trace_device(device::cpu_target(1));
  const auto flops = [&](ShapedRows rows) { return work_of(*traced, {&rows, 1}).flops; };
  EXPECT_GT(flops({1, 1, 60}), flops({1, 1, 10}));
  EXPECT_DOUBLE_EQ(flops({4, 1, 10}), 4 * flops({1, 1, 10}));
}

TEST(ShapedPasses, NoMoreThanThereIsRoomFor) {
  const auto traced = device::make_trace_device(device::cpu_target(1));
  EXPECT_THROW(work_of(*traced, std::vector<ShapedRows>{{5, 1, 0}}), std::exception);
  EXPECT_THROW(work_of(*traced, std::vector<ShapedRows>{{1, 2, 63}}), std::exception);
}

}  // namespace
}  // namespace megalith::inference
