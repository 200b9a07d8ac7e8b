// SPDX-License-Identifier: Apache-2.0
// Self-attention against finite differences in double precision, as gradients_test.cpp does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "layers/attention.h"
#include "layers/relative_bias.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

/// A key's bias adds the same to a query's scores of all keys, so the softmax does not feel it:
/// with other biases in the same vector the parameter as a whole still matters.
void check_attention(const AttentionSpec& spec, const std::string& what,
                     const NormSpec& norm = {NormKind::rms, 1e-5, 0, false}) {
  using megalith::testing::dot;
  SCOPED_TRACE(what);
  megalith::testing::LayerCase c(megalith::testing::tiny_f64_settings());
  AttentionConfig config{spec, norm, 16, 8};
  if (spec.relative) {
    config.relative =
        &declare_relative_bias(c.parameters(), "relative_bias.weight", spec, 1, c.partition());
  }
  const Attention layer(c.parameters(), "attention", {1, 0}, config, c.partition());
  c.place();
  Context context = c.context();
  const Shape shape{c.tokens(), 16};
  const auto x = c.random(shape, "x"), y = c.tensor(shape), dy = c.random(shape, "dy"),
             dx = c.tensor(shape);
  AttentionSaved saved;
  layer.forward(context, c.batch(), x, y, &saved);
  layer.backward(context, c.batch(), dy, x, saved, dx);
  const auto value = [&] {
    layer.forward(context, c.batch(), x, y, nullptr);
    return dot(y, dy);
  };
  EXPECT_THAT(megalith::testing::gradient_faults("x", x, dx, value), ::testing::IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), ::testing::IsEmpty());
}

TEST(LayerGradients, AttentionWithDropout) {
  for (const bool materialised : {false, true}) {
    for (const int64_t kv_heads : {4, 2, 1}) {  // of two tensor shards
      for (const bool causal : {true, false}) {
        check_attention({.heads = 4,
                         .kv_heads = kv_heads,
                         .head_dim = 4,
                         .causal = causal,
                         .materialised = materialised},
                        fmt::format("{} {} {}", materialised, kv_heads, causal));
      }
    }
  }
}

// What a row's output depends on, one row of the input after the other: without `causal` a window
// of three sees two tokens to either side.
TEST(Attention, AWindowThatIsNotCausalHasTwoSides) {
  for (const bool causal : {true, false}) {
    const AttentionSpec spec{
        .heads = 2, .kv_heads = 2, .head_dim = 8, .window = 3, .causal = causal};
    megalith::testing::LayerCase c(megalith::testing::tiny_f64_settings());
    const Attention layer(c.parameters(), "attention", {1, 0}, {spec, {}, 16, 8}, c.partition());
    c.place();
    Context context = c.context();
    context.dropout = 0;
    const Shape shape{c.tokens(), 16};
    const auto x = c.random(shape, "x"), before = c.tensor(shape), after = c.tensor(shape);
    layer.forward(context, c.batch(), x, before, nullptr);
    const std::span<const int32_t> ends = c.batch().cu_seqlens;
    for (int64_t changed = 0; changed < c.tokens(); ++changed) {
      double& element = x.view.row<double>(changed)[3];
      const double old = std::exchange(element, element + 1);
      layer.forward(context, c.batch(), x, after, nullptr);
      element = old;
      for (int64_t t = 0; t < c.tokens(); ++t) {
        const auto sequence_of = [&](int64_t token) {
          return std::ranges::upper_bound(ends, static_cast<int32_t>(token)) - ends.begin();
        };
        const int64_t ahead = changed - t;
        const bool seen =
            sequence_of(t) == sequence_of(changed) && ahead >= -2 && ahead <= (causal ? 0 : 2);
        bool differs = false;
        for (int64_t i = 0; i < 16; ++i)
          differs |= before.view.row<double>(t)[i] != after.view.row<double>(t)[i];
        EXPECT_EQ(differs, seen) << causal << " " << t << " " << changed;
      }
    }
  }
}

TEST(LayerGradients, AttentionsOfOtherFamilies) {
  AttentionSpec spec{.heads = 4, .kv_heads = 2, .head_dim = 6, .qkv_bias = false};
  check_attention(spec, "heads wider than hidden / heads");
  spec.output_bias = false;
  spec.rope.dim = 4;
  spec.rope.base = 100;
  check_attention(spec, "partial rotary");
  spec.rope.interleaved = true;
  spec.window = 3;
  check_attention(spec, "interleaved rotary, a window");
  spec.rope.scaling = RopeScaling::dynamic;
  spec.rope.factor = 2;
  spec.rope.original_context = 3;
  check_attention(spec, "angles by the length of the sequence");
  spec.qk_norm = QkNorm::head;
  check_attention(spec, "norms of queries and keys");
  spec.kv_heads = 1;
  check_attention(spec, "two tensor shards of one key/value head");
  spec.kv_heads = 2;
  spec.softcap = 2;
  spec.scale = 0.7;
  spec.materialised = true;
  check_attention(spec, "a softcap");
}

TEST(LayerGradients, AttentionWithRelativePositions) {
  for (const int64_t kv_heads : {4, 1}) {
    for (const bool causal : {true, false}) {
      AttentionSpec spec{.heads = 4,
                         .kv_heads = kv_heads,
                         .head_dim = 4,
                         .relative = RelativeSpec{.buckets = 8, .max_distance = 6},
                         .scale = 1,
                         .causal = causal};
      check_attention(spec, fmt::format("{} {}", kv_heads, causal));
      spec.window = 5;
      spec.materialised = true;
      check_attention(spec, fmt::format("{} {} windows", kv_heads, causal));
    }
  }
}

TEST(LayerGradients, AttentionWithNormsOverAllHeads) {
  for (const int64_t kv_heads : {4, 2, 1}) {
    for (const NormSpec& norm :
         {NormSpec{NormKind::rms, 1e-5, 1, false}, NormSpec{NormKind::layer, 1e-5, 0, false}}) {
      check_attention({.heads = 4,
                       .kv_heads = kv_heads,
                       .head_dim = 6,
                       .qkv_bias = false,
                       .qk_norm = QkNorm::whole,
                       .rope = {.dim = 6, .base = 100}},
                      fmt::format("{} {}", kv_heads, static_cast<int>(norm.kind)), norm);
    }
  }
}

}  // namespace
}  // namespace megalith::layers
