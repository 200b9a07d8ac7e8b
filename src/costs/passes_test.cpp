// SPDX-License-Identifier: Apache-2.0
// The operations that times are of, against those that a traced step of the same model runs.
#include "costs/passes.h"

#include <gtest/gtest.h>

#include "account/chunk_trace.h"
#include "costs/published_run.h"
#include "families/families.h"

namespace megalith::costs {
namespace {

using layers::Recompute;

const device::Target kTarget{device::DeviceKind::cpu, device::Isa::avx2, 1};

/// A device on which nothing but products takes time, at one operation a second and rank; so
/// seconds are operations.
clusters::Cluster counting() {
  clusters::Cluster c;
  c.name = "counting";
  c.device.bandwidth = 1e300;
  c.device.products = {{.type = clusters::ProductType::bf16, .peak = 1, .share = 1, .depth = 0},
                       {.type = clusters::ProductType::fp8, .peak = 1, .share = 1, .depth = 0}};
  c.device.attention = {.forward = 1, .backward = 1, .depth = 0};
  c.node.devices = 8;
  c.links = {{.name = "free", .devices = 0, .bandwidth = 1e300}};
  return c;
}

PublishedRun small() {
  return {.name = "small",
          .heads = 16,
          .hidden = 1024,
          .layers = 4,
          .tensor = 1,
          .pipeline = 1,
          .chunks = 1,
          .devices = 8,
          .global_batch = 16,
          .micro_batch = 2,
          .length = 512,
          .vocab = 1024};
}

/// Operations of matrix products of a traced layer: by far most of it.
TEST(Passes, ProductsAreThoseOfATracedLayer) {
  const clusters::Cluster cluster = counting();
  for (const bool streaming : {false, true}) {
    for (const int tensor : {1, 2, 8}) {
      for (const bool gated : {false, true}) {
        PublishedRun run = small();
        run.tensor = tensor;
        run.streaming = streaming;
        run.gated = gated;
        if (gated) run.ffn = 2048;
        engine::Settings s = settings_of(run);
        s.model.dropout = 0;
        // Materialised scores are whole squares, of which a trace counts the pairs that exist.
        if (!streaming) s.model.for_each_layer([](auto& l) { l.attention.causal = false; });
        const Passes layer = PartTimes(s, cluster).layer(s, 0, Recompute::none);
        const account::ChunkTrace trace = account::trace_layer(s, kTarget);
        // Norms, activations and softmax are on top there.
        EXPECT_NEAR(layer.forward.compute / trace.forward.flops, 1, 0.03)
            << streaming << tensor << gated;
        EXPECT_NEAR(layer.backward.compute / trace.backward.flops, 1, 0.05)
            << streaming << tensor << gated;
      }
    }
  }
}

TEST(Passes, FullRecomputationIsOneForwardMore) {
  const engine::Settings s = settings_of(small());
  const clusters::Cluster cluster = counting();
  const PartTimes times(s, cluster);
  const Passes none = times.layer(s, 0, Recompute::none), full = times.layer(s, 0, Recompute::full);
  EXPECT_EQ(full.again.total(), none.forward.total());
  EXPECT_EQ(none.again.total(), 0);
  // Selective: the scores' products and what they are multiplied with (materialised attention).
  const double scores = 4.0 * 512 * 512 * 1024 * 2;
  EXPECT_NEAR(times.layer(s, 0, Recompute::selective).again.total(), scores, 1e-6 * scores);
}

/// Korthikanti et al. 2022, equation 7.
TEST(Passes, ModelOperationsAreThoseOfThePaper) {
  const engine::Settings s = settings_of(small());
  const clusters::Cluster cluster = counting();
  const PartTimes times(s, cluster);
  const double b = 2, l = 512, h = 1024, v = 1024;
  EXPECT_DOUBLE_EQ(times.layer(s, 0, Recompute::full).model_flops,
                   72 * b * l * h * h * (1 + l / (6 * h)));
  EXPECT_DOUBLE_EQ(times.head(s).model_flops, 6 * b * l * h * v);
}

TEST(Passes, PairsOfCausalAndWindowedAttention) {
  layers::AttentionSpec a;
  EXPECT_EQ(pairs_of(a, 4, 4), 10);
  a.window = 2;
  EXPECT_EQ(pairs_of(a, 4, 4), 7);  // 1 + 2 + 2 + 2
  a.causal = false;
  EXPECT_EQ(pairs_of(a, 4, 4), 12);
  a.window = 0;
  EXPECT_EQ(pairs_of(a, 4, 6), 24);
}

/// Transfers of one layer, in halves of an all-reduce: Korthikanti et al. 2022, section 4.2.2.
TEST(Passes, WireOfALayer) {
  clusters::Cluster cluster = counting();
  cluster.links[0] = {.name = "slow", .devices = 0, .bandwidth = 1};
  cluster.execution = {};
  PublishedRun run = small();
  run.tensor = 8;
  const double half = 7.0 / 8 * 2 * 512 * 1024 * 2;  // bytes of bf16
  for (const bool sequence : {false, true}) {
    run.sequence = sequence;
    const engine::Settings s = settings_of(run);
    const Passes layer = PartTimes(s, cluster).layer(s, 0, Recompute::none);
    EXPECT_NEAR(layer.forward.wire, 4 * half, 1e-6 * half);
    EXPECT_NEAR(layer.backward.wire, (sequence ? 6 : 4) * half, 1e-6 * half);
  }
}

}  // namespace
}  // namespace megalith::costs
