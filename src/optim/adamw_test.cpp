// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace megalith::optim {
namespace {

TEST(Glob, MatchesWholeNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("layers.*.bias", "layers.3.mlp.up.bias"));
  EXPECT_FALSE(matches("layers.*.bias", "layers.3.mlp.up.weight"));
  EXPECT_TRUE(matches("*weight", "embedding.weight"));
  EXPECT_FALSE(matches("weight", "embedding.weight"));
  EXPECT_TRUE(matches("l?yers.*.*_1.*", "layers.10.norm_1.weight"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("a*b*c", "aXbbYc"));
  EXPECT_FALSE(matches("a*b*c", "aXbbY"));
}

TEST(AdamW, RatesOfGroupsAndDepthsMultiply) {
  AdamWOptions options;
  EXPECT_EQ(lr_scale_of(options, "layers.1.bias"), 1);
  options.groups = {{"*.bias", 4, {}}, {"*", 3, {}}};
  options.depths = {{"layers.1.", 0.5}, {"layers.", 0.25}};
  EXPECT_EQ(lr_scale_of(options, "layers.1.bias"), 2);
  EXPECT_EQ(lr_scale_of(options, "layers.10.weight"), 0.75);
  EXPECT_EQ(lr_scale_of(options, "head.weight"), 3);
}

/// Five steps of the 20-line double loop against the optimizer, all in f64 so that the bound is
/// tight.
TEST(AdamW, FiveStepsEqualTheDoubleLoop) {
  auto device = device::make_cpu_device(2);
  parameters::ParameterSet set;
  using parameters::Init;
  set.declare(
      {"block.weight", Shape{3, 5}, Shard::whole(Shape{3, 5}), Init{Init::Kind::normal, 0.5}});
  set.declare({"block.bias", Shape{7}, Shard::whole(Shape{7}), Init{Init::Kind::normal, 0.5}});
  set.declare(
      {"head.weight", Shape{2, 2}, Shard::whole(Shape{2, 2}), Init{Init::Kind::normal, 0.5}});
  set.allocate(*device, {DType::f64, DType::f64, true, 1});
  set.initialise(*device, 42);
  AdamWOptions options;
  options.weight_decay = 0.25;
  options.groups = {{"head.*", 0.5, 0.125}};
  options.depths = {{"block.", 0.75}};
  AdamW adamw(set, *device, options);
  kernels::Exec exec(*device);
  const std::vector<double> decay{0.25, 0.0, 0.125}, scale{0.75, 0.75, 0.5};
  const device::Tensor factor = exec.workspace.tensor(DType::f64, Shape{1});
  const double clip = 0.5;
  device->copy_to_device(factor, &clip);
  std::vector<std::vector<double>> w, m, v;
  for (auto& p : set.all()) {
    w.emplace_back(p.master().as<double>(), p.master().as<double>() + p.local_elements());
    m.emplace_back(w.back().size(), 0.0);
    v.emplace_back(w.back().size(), 0.0);
  }
  for (int step = 1; step <= 5; ++step) {
    const double lr = 0.1 / step;
    size_t i = 0;
    for (auto& p : set.all()) {
      for (size_t j = 0; j < w[i].size(); ++j) {
        const double gradient =
            std::sin(static_cast<double>(step * 100 + static_cast<int>(i * 10 + j)));
        p.gradient().as<double>()[j] = gradient;
        const double g = gradient * clip, rate = lr * scale[i];
        w[i][j] *= 1 - rate * decay[i];
        m[i][j] = 0.9 * m[i][j] + 0.1 * g;
        v[i][j] = 0.95 * v[i][j] + 0.05 * g * g;
        w[i][j] -= rate * (m[i][j] / (1 - std::pow(0.9, step))) /
                   (std::sqrt(v[i][j] / (1 - std::pow(0.95, step))) + 1e-8);
      }
      ++i;
    }
    adamw.update(exec, step, lr, factor);
  }
  size_t i = 0;
  for (auto& p : set.all()) {
    for (size_t j = 0; j < w[i].size(); ++j)
      EXPECT_NEAR(p.master().as<double>()[j], w[i][j], 1e-14);
    EXPECT_EQ(p.version(), 6u);
    ++i;
  }
}

}  // namespace
}  // namespace megalith::optim
