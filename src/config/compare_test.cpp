// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "config/recipe.h"

namespace megalith::config {
namespace {

TEST(Compare, DifferencesNameBothValues) {
  Recipe a, b;
  EXPECT_TRUE(differences(a, b).empty());
  a.data.train = {{"x", 1}};
  b.data.train = {{"y", 1}, {"z", 2}};
  b.model.hidden = 1536;
  b.optimizer.schedule = Schedule::wsd;
  const std::vector<Difference> d = differences(a, b);
  ASSERT_EQ(d.size(), 6u);
  EXPECT_EQ(d[0].path, "model.hidden");
  EXPECT_EQ(d[0].before, "768");
  EXPECT_EQ(d[0].after, "1536");
  EXPECT_EQ(d[1].path, "model.ffn");  // derived from hidden
  EXPECT_EQ(d[2].path, "data.train.0.path");
  EXPECT_EQ(d[2].before, "\"x\"");
  EXPECT_EQ(d[3].path, "optimizer.schedule");
  EXPECT_EQ(d[4].path, "data.train.1.path");
  EXPECT_EQ(d[4].before, "absent");
  EXPECT_EQ(d[5].path, "data.train.1.weight");
  EXPECT_EQ(differences(b, a)[4].after, "absent");
}

TEST(Compare, DerivedAndGivenValuesAreTheSame) {
  Recipe a, b;
  b.model.ffn = 4 * b.model.hidden;
  b.model.kv_heads = b.model.heads;
  b.train.micro_batch = b.train.global_batch;
  EXPECT_TRUE(differences(a, b).empty());
  EXPECT_EQ(fingerprint(a), fingerprint(b));
}

TEST(Compare, FingerprintIsFrozen) {
  Recipe r;
  // No line differs from the defaults: the digest of nothing.
  EXPECT_EQ(fingerprint(r), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  r.model.hidden = 384;
  r.model.vocab = 50257;
  r.data.train = {{"data/train", 0.25}};
  r.train.steps = 1000;
  r.optimizer.lr = 1e-3;
  r.optimizer.groups = {{"*.bias", 2, 0.0}};
  EXPECT_EQ(fingerprint(r), "0a74ef4cb162ecf8e3985e51db33349cca38d65275e48191af5f67d103d07f45");
}

TEST(Compare, WhatCannotChangeTheResultIsInNoFingerprint) {
  const std::string before = fingerprint(Recipe{});
  const std::vector<std::function<void(Recipe&)>> without = {
      [](Recipe& r) { r.run.out = "elsewhere"; },
      [](Recipe& r) { r.run.name = "x"; },
      [](Recipe& r) { r.run.threads = 3; },
      [](Recipe& r) { r.train.micro_batch = 2; },
      [](Recipe& r) { r.checkpoint.every = 5; },
      [](Recipe& r) { r.parallel.tensor = 2; },
      [](Recipe& r) { r.parallel.pipeline = 2; },
      [](Recipe& r) { r.train.log_every = 9; },
      [](Recipe& r) { r.memory.recompute = Recompute::full; },
      [](Recipe& r) { r.parallel.context = r.parallel.expert = 2; },
      [](Recipe& r) { r.memory.offload = Offload::activations; }};
  for (size_t i = 0; i < without.size(); ++i) {
    Recipe r;
    without[i](r);
    EXPECT_EQ(fingerprint(r), before) << i;
  }
}

TEST(Compare, WhatChangesTheResultIsInTheFingerprint) {
  const std::string before = fingerprint(Recipe{});
  const std::vector<std::function<void(Recipe&)>> within = {
      [](Recipe& r) { r.run.seed = 2; },
      [](Recipe& r) { r.model.dropout = 0.1; },
      [](Recipe& r) {
        r.data.train = {{"a", 1}};
      },
      [](Recipe& r) { r.train.global_batch = 16; },
      [](Recipe& r) { r.optimizer.lr = 4e-4; },
      [](Recipe& r) { r.precision.compute = Compute::bf16; },
      [](Recipe& r) { r.numerics = Numerics::fast; },
      [](Recipe& r) { r.model.attention = Attention::materialised; },
      [](Recipe& r) { r.parallel.tensor_shards = 2; },
      [](Recipe& r) { r.parallel.data_shards = 2; }};
  for (size_t i = 0; i < within.size(); ++i) {
    Recipe r;
    within[i](r);
    EXPECT_NE(fingerprint(r), before) << i;
  }
}

}  // namespace
}  // namespace megalith::config
