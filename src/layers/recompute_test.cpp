// SPDX-License-Identifier: Apache-2.0
// What backward makes again has the bits of what forward had: a block's gradients are equal in
// every recompute mode and for both ways of attention's backward, in f32 and bf16.
#include <gtest/gtest.h>

#include <cstring>

#include "models/block.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::LayerCase;

engine::Settings settings_of(DType dtype) {
  engine::Settings settings = megalith::testing::toy_settings();
  settings.weights = settings.activations = dtype;
  settings.ragged = true;
  return settings;
}

struct Outcome {
  std::vector<std::byte> bits;  // y, dx, all gradient sums
  int64_t saved_bytes = 0;      // held between forward and backward
};

void append(ConstView view, std::vector<std::byte>& bits) {
  bits.insert(bits.end(), view.data(), view.data() + view.bytes());
}

Outcome run_block(DType dtype, Recompute mode, double dropout, bool materialised,
                  QkNorm qk_norm = QkNorm::none) {
  engine::Settings settings = settings_of(dtype);
  settings.model.dropout = dropout;
  LayerCase c(settings);
  const models::ModelSpec& a = settings.model;
  LayerSpec spec = a.layer(0);
  spec.attention.materialised = materialised;
  spec.attention.qk_norm = qk_norm;
  const Block layer(c.parameters(), {2, 0}, {spec, a.hidden, a.context}, c.partition());
  c.place();
  Context context = c.context();
  const Shape shape{c.tokens(), a.hidden};
  const auto x = c.random(shape, "x"), y = c.tensor(shape), dy = c.random(shape, "dy");
  Outcome outcome;
  BlockSaved saved;
  layer.forward(context, c.batch(), x, y, &saved, mode);
  outcome.saved_bytes = c.device().arena(device::MemoryClass::activations).in_use();
  append(y, outcome.bits);
  // In place, as the model does it.
  layer.backward(context, c.batch(), {dy, dy}, x, saved, mode);
  append(dy, outcome.bits);
  append(c.parameters().flat_gradient_sums(), outcome.bits);
  return outcome;
}

TEST(Recompute, ChangesMemoryButNoBit) {
  for (const bool materialised : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const double dropout : {0.0, 0.1}) {
        const Outcome none = run_block(dtype, Recompute::none, dropout, materialised);
        const Outcome selective = run_block(dtype, Recompute::selective, dropout, materialised);
        const Outcome full = run_block(dtype, Recompute::full, dropout, materialised);
        EXPECT_EQ(none.bits, selective.bits) << name_of(dtype) << dropout << materialised;
        EXPECT_EQ(none.bits, full.bits) << name_of(dtype) << dropout << materialised;
        EXPECT_LT(selective.saved_bytes, none.saved_bytes);
        EXPECT_EQ(full.saved_bytes, 0);
      }
      EXPECT_NE(run_block(dtype, Recompute::none, 0.0, materialised).bits,
                run_block(dtype, Recompute::none, 0.1, materialised).bits);
    }
  }
}

TEST(Recompute, NormsOfQueriesAndKeysAreMadeAgain) {
  for (const QkNorm qk_norm : {QkNorm::head, QkNorm::whole}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Outcome none = run_block(dtype, Recompute::none, 0.1, false, qk_norm);
      for (const auto mode : {Recompute::selective, Recompute::full})
        EXPECT_EQ(none.bits, run_block(dtype, mode, 0.1, false, qk_norm).bits) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace megalith::layers
