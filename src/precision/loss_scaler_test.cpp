// SPDX-License-Identifier: Apache-2.0
// The rules are those of kernels/narrow/loss_scale.h, which are compared with PyTorch's there; here
// is what keeps them between steps and starts.
#include "precision/loss_scaler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/elementwise/pointwise.h"

namespace megalith::precision {
namespace {

class LossScalerTest : public ::testing::Test {
 protected:
  /// The scales after steps that were finite (+) or not (-).
  std::vector<float> after(LossScaler& scaler, std::string_view run) {
    kernels::Exec exec(*device_);
    const device::Tensor finite = exec.workspace.tensor(DType::i32, Shape{1});
    std::vector<float> scales;
    for (const char step : run) {
      kernels::fill(exec, finite, step == '+' ? 1 : 0);
      scaler.update(exec, finite);
      scaler.read();
      EXPECT_EQ(scaler.host_scale(), *scaler.scale().as<float>());
      scales.push_back(scaler.host_scale());
    }
    return scales;
  }

  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
};

constexpr LossScaleOptions kQuick{.initial = 8, .growth_interval = 3, .hysteresis = 2, .least = 2};

TEST_F(LossScalerTest, ShrinksAfterOverflowsAndGrowsAfterAnInterval) {
  LossScaler scaler(*device_, kQuick);
  EXPECT_EQ(scaler.host_scale(), 8);
  EXPECT_EQ(after(scaler, "--+++----"), (std::vector<float>{8, 4, 4, 4, 8, 8, 4, 2, 2}));
  EXPECT_FALSE(scaler.can_shrink());
}

TEST_F(LossScalerTest, StaysWhereItIsFixed) {
  LossScaler scaler(*device_, {.dynamic = false, .initial = 1024});
  EXPECT_EQ(after(scaler, "-+-"), (std::vector<float>{1024, 1024, 1024}));
  EXPECT_FALSE(scaler.can_shrink());
}

/// Of every step of a run: one that goes on from there has the same scales.
TEST_F(LossScalerTest, GoesOnFromWhatItSaved) {
  const std::string_view run = "--++-+++--+++-++++++-";
  LossScaler whole(*device_, kQuick);
  const std::vector<float> scales = after(whole, run);
  for (size_t at = 0; at < run.size(); ++at) {
    LossScaler first(*device_, kQuick), second(*device_, kQuick);
    after(first, run.substr(0, at));
    second.restore(nlohmann::json::parse(first.to_json().dump()));
    std::vector<float> rest(scales.begin() + static_cast<std::ptrdiff_t>(at), scales.end());
    EXPECT_EQ(after(second, run.substr(at)), rest) << at;
  }
}

TEST_F(LossScalerTest, RestoresIntoItsOwnOptions) {
  LossScaler scaler(*device_, {.initial = 64, .hysteresis = 2, .least = 8});
  scaler.restore({{"scale", 2.0}, {"good_steps", 5}, {"overflows_until_smaller", 7}});
  EXPECT_EQ(scaler.host_scale(), 8);
  EXPECT_FALSE(scaler.can_shrink());
  const nlohmann::json clamped = {
      {"scale", 8.0}, {"good_steps", 5}, {"overflows_until_smaller", 2}};
  EXPECT_EQ(scaler.to_json(), clamped);
  scaler.read();  // the device has the same
  EXPECT_EQ(scaler.to_json(), clamped);
}

TEST_F(LossScalerTest, RefusesWhatIsNoState) {
  LossScaler scaler(*device_, kQuick);
  const nlohmann::json good = scaler.to_json();
  for (const auto& [key, value] : {std::pair<const char*, nlohmann::json>{"scale", 3.0},
                                   {"scale", 0.0},
                                   {"scale", -2.0},
                                   {"scale", 1e-320},
                                   {"scale", 1e300},
                                   {"scale", nullptr},
                                   {"good_steps", -1},
                                   {"good_steps", 1e12},
                                   {"overflows_until_smaller", "2"}}) {
    nlohmann::json bad = good;
    bad[key] = value;
    EXPECT_THROW(scaler.restore(bad), IntegrityError) << bad.dump();
  }
  EXPECT_THROW(scaler.restore(nlohmann::json(4)), IntegrityError);
  EXPECT_EQ(scaler.to_json(), good);
}

TEST_F(LossScalerTest, RefusesScalesThatRound) {
  EXPECT_THROW(LossScaler(*device_, {.initial = 1000}), InternalError);
  EXPECT_THROW(LossScaler(*device_, {.initial = 1, .least = 2}), InternalError);
}

}  // namespace
}  // namespace megalith::precision
