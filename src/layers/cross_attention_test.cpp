// SPDX-License-Identifier: Apache-2.0
// Cross attention and the block around it: gradients of the rows that ask and of the memory, and
// the same bits from keys and values that were kept. cross_layout_test.cpp has several ranks.
#include "layers/cross_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "device/staged_copies.h"
#include "testing/cross_case.h"
#include "testing/gradient_check.h"

namespace megalith::layers {
namespace {

using ::testing::IsEmpty;
namespace toys = megalith::testing;

TEST(CrossAttention, SequencesDifferInLength) {
  const toys::CrossCase t(toys::tiny_f64_settings());
  const auto mine = t.batch.cu_seqlens, theirs = t.memory.batch->cu_seqlens;
  ASSERT_EQ(mine.size(), theirs.size());
  EXPECT_GT(mine.size(), static_cast<size_t>(toys::CrossCase::kSamples) + 1);
  EXPECT_FALSE(std::ranges::equal(mine, theirs));
}

TEST(CrossAttention, GradientsMatchFiniteDifferences) {
  for (const bool materialised : {false, true}) {
    for (const int64_t kv_heads : {4, 2, 1}) {
      for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::whole}) {
        SCOPED_TRACE(fmt::format("{} {} {}", materialised, kv_heads, settings::name_of(qk_norm)));
        toys::CrossCase t(toys::tiny_f64_settings());
        AttentionSpec spec = toys::cross_spec(kv_heads, qk_norm);
        spec.materialised = materialised;
        const CrossAttention layer(t.c.parameters(), "cross", {1, 0}, toys::cross_config(spec),
                                   t.c.partition());
        t.c.place();
        Context context = t.c.context();
        CrossAttentionSaved saved;
        layer.forward(context, t.batch, t.x, t.y, &saved);
        layer.backward(context, t.batch, t.dy, t.x, saved, t.dx);
        const auto value = [&] {
          layer.forward(context, t.batch, t.x, t.y, nullptr);
          return toys::dot(t.y, t.dy);
        };
        EXPECT_THAT(toys::gradient_faults("x", t.x, t.dx, value), IsEmpty());
        EXPECT_THAT(toys::gradient_faults("memory", t.rows, t.gradient, value), IsEmpty());
        EXPECT_THAT(t.c.parameter_faults(value), IsEmpty());
      }
    }
  }
}

TEST(CrossAttention, BlocksMatchFiniteDifferencesInEveryRecomputeMode) {
  for (const auto mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const auto place : {NormPlace::pre, NormPlace::post, NormPlace::both}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(mode), settings::name_of(place)));
      toys::CrossCase t(toys::tiny_f64_settings());
      LayerSpec spec = toys::crossed_layer(QkNorm::whole);
      spec.norm_place = place;
      spec.residual_scale = 0.75;
      const Block layer(t.c.parameters(), {1, 0}, {spec, toys::kCrossHidden, 8}, t.c.partition());
      t.c.place();
      Context context = t.c.context();
      BlockSaved saved;
      layer.forward(context, t.batch, t.x, t.y, &saved, mode);
      layer.backward(context, t.batch, {t.dy, t.dx}, t.x, saved, mode);
      const auto value = [&] {
        layer.forward(context, t.batch, t.x, t.y, nullptr, Recompute::none);
        return toys::dot(t.y, t.dy);
      };
      EXPECT_THAT(toys::gradient_faults("x", t.x, t.dx, value), IsEmpty());
      EXPECT_THAT(toys::gradient_faults("memory", t.rows, t.gradient, value), IsEmpty());
      EXPECT_THAT(t.c.parameter_faults(value), IsEmpty());
    }
  }
}

/// What one layer keeps of the memory: a block for each sequence, last sequence first.
struct KeptMemory {
  KeptMemory(toys::CrossCase& t, const AttentionSpec& spec, const Context& context)
      : copies(t.c.device()) {
    const auto theirs = t.memory.batch->cu_seqlens;
    const int64_t sequences = std::ssize(theirs) - 1;
    const kernels::KvCacheShape shape{context.activation, spec.kv_heads, spec.head_dim, sequences};
    storage = context.workspace(shape.dtype, Shape{kernels::kv_cache_elements(shape)});
    layer = {shape, storage, 0};
    std::vector<int32_t> table(static_cast<size_t>(sequences)), tables;
    std::iota(table.rbegin(), table.rend(), 0);
    none.resize(table.size());
    written = {theirs, none, t.memory.batch->cu_seqlens_device, copies.place<int32_t>(none),
               copies.place<int32_t>(table).reshape(Shape{sequences, 1})};
    for (int64_t s = 0; s < sequences; ++s) {
      const auto at = static_cast<size_t>(s);
      for (int32_t row = t.batch.cu_seqlens[at]; row < t.batch.cu_seqlens[at + 1]; ++row) {
        past.push_back(theirs[at + 1] - theirs[at] - 1);
        tables.push_back(table[at]);
      }
    }
    rows.resize(past.size() + 1);
    std::iota(rows.begin(), rows.end(), 0);
    read = {rows, past, copies.place<int32_t>(rows), copies.place<int32_t>(past),
            copies.place<int32_t>(tables).reshape(Shape{std::ssize(past), 1})};
  }
  KvCacheBinding binding(const kernels::CachedSequences& sequences) const {
    return {{}, std::span(&layer, 1), std::span(&sequences, 1)};
  }
  device::StagedCopies copies;
  device::Tensor storage;
  CachedLayer layer;
  std::vector<int32_t> none, past, rows;
  kernels::CachedSequences written, read;
};

/// Keys and values made once serve any number of passes, whole or row by row.
TEST(CrossAttention, KeptKeysAndValuesGiveTheBitsOfFreshOnes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::whole}) {
      engine::Settings settings = toys::tiny_f64_settings();
      settings.masters = DType::f32;
      settings.weights = settings.activations = dtype;
      settings.model.dropout = 0;
      toys::CrossCase t(settings);
      const AttentionSpec spec = toys::cross_spec(2, qk_norm);
      const CrossAttention layer(t.c.parameters(), "cross", {1, 0}, toys::cross_config(spec),
                                 t.c.partition());
      t.c.place();
      Context context = t.c.context();
      CrossAttentionSaved saved;
      layer.forward(context, t.batch, t.x, t.y, &saved);
      const KeptMemory kept(t, spec, context);
      layer.keep(context, t.memory, kept.binding(kept.written));
      const KvCacheBinding binding = kept.binding(kept.read);
      t.batch.memory = nullptr;
      t.batch.cache = &binding;
      for (int pass = 0; pass < 2; ++pass) {
        const device::Tensor again = t.c.tensor(t.y.view.shape());
        layer.forward(context, t.batch, t.x, again, nullptr);
        EXPECT_EQ(
            std::memcmp(again.view.data(), t.y.view.data(), static_cast<size_t>(t.y.view.bytes())),
            0)
            << name_of(dtype) << settings::name_of(qk_norm);
      }
    }
  }
}

TEST(CrossAttention, TheMemorysGradientAccumulates) {
  toys::CrossCase t(toys::tiny_f64_settings());
  const CrossAttention layer(t.c.parameters(), "cross", {1, 0},
                             toys::cross_config(toys::cross_spec(2)), t.c.partition());
  t.c.place();
  Context context = t.c.context();
  CrossAttentionSaved saved;
  layer.forward(context, t.batch, t.x, t.y, &saved);
  layer.backward(context, t.batch, t.dy, t.x, saved, t.dx);
  const device::Tensor once = t.c.tensor(t.gradient.view.shape());
  t.c.device().copy(once.view, t.gradient.view);
  layer.backward(context, t.batch, t.dy, t.x, saved, t.dx);
  for (int64_t i = 0; i < once.view.num_elements(); ++i)
    ASSERT_EQ(t.gradient.view.as<double>()[i], 2 * once.view.as<double>()[i]) << i;
}

}  // namespace
}  // namespace megalith::layers
