// SPDX-License-Identifier: Apache-2.0
// A whole two-layer model, a GPT and one of every family, with dropout, masked tokens, several
// documents in a sample, grouped queries and z-loss: the gradient of every parameter against finite
// differences in double precision.
#include "models/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/layer_case.h"

namespace megalith::models {
namespace {

using megalith::testing::LayerCase;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

/// The training loss: forward without anything saved, through `hidden`, `score` and `logits`, which
/// share the layers but not the order of buffers with `forward` and `loss`.
double training_loss(LayerCase& c, layers::Context& context, const Decoder& model) {
  const ModelSpec& a = model.spec();
  const StreamRows rows(c.batch());
  const auto x = c.tensor(Shape{rows.all(), a.hidden}), loss = c.tensor(Shape{c.tokens()});
  const auto logits = c.tensor(Shape{c.tokens(), a.padded_vocab(2)});
  model.hidden(context, c.batch(), x);
  model.score(context, c.batch(), x, loss);
  model.logits(context, rows.decoder(x.view), logits);
  double sum = 0;
  for (int64_t t = 0; t < c.tokens(); ++t) {
    double exps = 0;
    for (int64_t v = 0; v < a.vocab; ++v) exps += std::exp(logits.view.row<double>(t)[v]);
    const double lse = std::log(exps);
    sum += static_cast<double>(c.batch().loss_weight_T.as<float>()[t]) *
           (loss.view.as<double>()[t] + c.settings().z_loss * lse * lse);
  }
  return static_cast<double>(c.batch().loss_scale) * sum;
}

struct Choice {
  bool tied;
  layers::Recompute recompute;
  bool materialised;
};

/// Of every parameter, against finite differences.
void expect_gradients(const engine::Settings& settings, layers::Recompute recompute) {
  LayerCase c(settings);
  const Decoder model(settings.model, c.parameters(), Stage::whole(settings.model), c.partition());
  EXPECT_EQ(model.tied() != nullptr, settings.model.head.tied);
  c.place();
  layers::Context context = c.context();
  DecoderSaved saved;
  const auto loss = c.tensor(Shape{c.tokens()}),
             dx = c.tensor(
                 Shape{StreamRows(c.batch()).all_gradients(context), settings.model.hidden});
  model.forward(context, c.batch(), saved, {recompute});
  model.loss(context, c.batch(), saved, static_cast<float>(settings.z_loss), loss, dx);
  model.backward(context, c.batch(), saved, {recompute}, dx);
  EXPECT_EQ(c.device().arena(device::MemoryClass::activations).in_use(), 0)
      << "backward releases what forward kept";
  EXPECT_THAT(c.parameter_faults([&] { return training_loss(c, context, model); }), IsEmpty());
}

class DecoderGradients : public ::testing::TestWithParam<Choice> {};

TEST_P(DecoderGradients, EveryParameter) {
  engine::Settings settings = tiny_f64_settings();
  settings.model.head.tied = GetParam().tied;
  testing::set_materialised(settings.model, GetParam().materialised);
  settings.z_loss = 0.0625;
  expect_gradients(settings, GetParam().recompute);
}

TEST(DecoderGradients, OfRelativePositions) {
  engine::Settings settings = tiny_f64_settings();
  settings.model.embedding.position = layers::PositionKind::none;
  settings.model.for_each_layer([](layers::LayerSpec& layer) {
    layer.attention.relative = layers::RelativeSpec{.buckets = 4, .max_distance = 5};
  });
  settings.z_loss = 0.0625;
  expect_gradients(settings, layers::Recompute::none);
}

TEST(EncoderDecoderGradients, EveryParameter) {
  for (const bool tied : {true, false}) {
    engine::Settings settings = tiny_f64_settings();
    const models::ModelSpec tiny = settings.model;
    settings.model = testing::toy_encoder_decoder_settings().model;
    settings.model.hidden = tiny.hidden;
    settings.model.context = tiny.context;
    settings.model.vocab = tiny.vocab;
    settings.model.head.tied = tied;
    settings.decoder_length = 5;
    settings.z_loss = 0.0625;
    settings.model.for_each_layer([&](layers::LayerSpec& layer) {
      layer.attention.heads = layer.attention.kv_heads = 2;
      layer.attention.head_dim = layer.attention.rope.dim = 4;
      layer.mlp.ffn = 6;
      if (!layer.cross) return;
      layer.cross->heads = layer.cross->kv_heads = 2;
      layer.cross->head_dim = 4;
    });
    expect_gradients(settings, tied ? layers::Recompute::selective : layers::Recompute::full);
  }
}

class FamilyGradients : public ::testing::TestWithParam<const Family*> {};

TEST_P(FamilyGradients, EveryParameter) {
  engine::Settings settings = tiny_f64_settings();
  settings.z_loss = 0.0625;
  settings.model = testing::toy_family_model(*GetParam(), {.layers = 2,
                                                           .hidden = 16,
                                                           .heads = 4,
                                                           .kv_heads = 2,
                                                           .head_dim = 4,
                                                           .ffn = 6,
                                                           .context = 8,
                                                           .vocab = 20});
  settings.decoder_length = 5;
  expect_gradients(settings, layers::Recompute::selective);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGradients,
                         ::testing::ValuesIn(families().begin(), families().end()),
                         [](const auto& each) { return std::string(each.param->name); });

INSTANTIATE_TEST_SUITE_P(Choices, DecoderGradients,
                         ::testing::Values(Choice{true, layers::Recompute::none, false},
                                           Choice{false, layers::Recompute::selective, true},
                                           Choice{true, layers::Recompute::full, false}));

TEST(Decoder, StagesDeclareTheWholeModelOnce) {
  const ModelSpec a = tiny_f64_settings().model;
  const layers::Partition alone{2, 1, 0, 2};
  parameters::ParameterSet whole, first, last;
  const Decoder model(a, whole, Stage::whole(a), alone);
  const Decoder begin(a, first, Stage::part(a, 0, 2), alone),
      end(a, last, Stage::part(a, 1, 2), alone);
  for (const auto& parameter : whole.all()) {
    const int holders =
        (first.find(parameter.name()) != nullptr) + (last.find(parameter.name()) != nullptr);
    EXPECT_EQ(holders, parameter.name() == "embedding.weight" ? 2 : 1) << parameter.name();
  }
  // Padded rows of the table are no parameters.
  EXPECT_EQ(whole.global_elements() - (a.padded_vocab(2) - a.vocab) * a.hidden, a.num_parameters());
}

TEST(Decoder, StagesCoverAllBlocksInOrder) {
  ModelSpec a;
  for (const int64_t layers : {1, 2, 3, 7, 12}) {
    a.set_num_layers(layers);
    for (int count = 1; count <= layers; ++count) {
      int64_t next = 0;
      for (int i = 0; i < count; ++i) {
        const Stage stage = Stage::part(a, i, count);
        EXPECT_EQ(stage.begin, next);
        EXPECT_LE(stage.end - stage.begin, (layers + count - 1) / count);
        EXPECT_EQ(stage.has_embedding, i == 0);
        EXPECT_EQ(stage.has_head, i == count - 1);
        next = stage.end;
      }
      EXPECT_EQ(next, layers);
    }
  }
}

}  // namespace
}  // namespace megalith::models
