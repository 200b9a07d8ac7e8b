// SPDX-License-Identifier: Apache-2.0
// A number that is not finite is caught in the step that meets it, wherever it begins, changes
// nothing, and is named.
#include "engine/not_finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "comm/backends.h"
#include "testing/logical_state.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

using megalith::testing::LogicalState;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One rank with the toy model after one good step.
struct Toy {
  explicit Toy(const Settings& with = toy_settings())
      : settings(with),
        device(device::make_cpu_device(1)),
        world(comm::make_self_communicator(*device)),
        mesh(*world, settings.layout),
        engine(settings, *device, mesh) {
    engine.initialise();
    EXPECT_TRUE(engine.step(1, 1e-2, batches(1), toy_weight(settings, 1)).applied);
  }
  std::vector<data::HostBatch> batches(int64_t step) const {
    return toy_micro_batches(settings, step, 0);
  }
  void set(View values, float value, int64_t from = 0, int64_t count = 1) {
    for (int64_t i = from; i < from + count; ++i)
      reinterpret_cast<float*>(values.data())[i] = value;
    engine.parameters().refresh_compute(*device);
  }
  View weight(const char* name) { return engine.parameters().find(name)->master(); }
  /// A digest of parameters and moments.
  std::string state() {
    LogicalState state;
    state.add(engine);
    return state.digest();
  }
  /// The step must find it, change nothing, and name it.
  std::string caught(std::vector<data::HostBatch> micro_batches, double global_weight) {
    const std::string before = state();
    const StepResult result = engine.step(2, 1e-2, micro_batches, global_weight);
    EXPECT_FALSE(result.applied);
    const std::string first = first_not_finite(engine, 2, micro_batches, global_weight);
    EXPECT_EQ(state(), before);
    return first;
  }
  std::string caught() { return caught(batches(2), toy_weight(settings, 2)); }

  Settings settings;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> world;
  parallel::Mesh mesh;
  Engine engine;
};

/// Storage that a recipe can ask for, with a head of its own.
Settings stored_as(DType dtype) {
  Settings settings = toy_settings();
  settings.model.head.tied = false;
  settings.weights = settings.activations = dtype;
  return settings;
}

TEST(NotFinite, InAWeightOfAnyLayer) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const float value : {kNan, std::numeric_limits<float>::infinity()}) {
      for (const char* name : {"embedding.weight", "position.weight", "layers.2.norm_1.weight",
                               "layers.0.attention.qkv.weight", "layers.1.attention.output.weight",
                               "layers.0.norm_2.bias", "layers.2.mlp.up.weight",
                               "layers.1.mlp.down.bias", "final_norm.bias", "head.weight"}) {
        Toy toy(stored_as(dtype));
        toy.set(toy.weight(name), value, 3);
        EXPECT_EQ(toy.caught(), std::string("weight ") + name) << name_of(dtype) << " " << value;
      }
    }
  }
}

/// Finite weights with which an activation is not: sums and products that leave the range that f32
/// and bf16 share, and scores of attention whose difference is no number.
struct Overflow {
  std::vector<const char*> weights;
  float value;
  const char* named;
};
const std::vector<Overflow> kOverflows = {
    {{"embedding.weight", "position.weight"}, 3e38F, "embedding.output"},
    {{"layers.1.norm_1.weight", "layers.1.norm_1.bias"}, 3e38F, "layers.1.attention.norm_1"},
    {{"layers.1.attention.qkv.weight"}, 3e38F, "layers.1.attention.qkv"},
    {{"layers.1.attention.qkv.bias"}, 1e30F, "layers.1.attention.core"},
    {{"layers.1.attention.output.weight"}, 3e38F, "layers.1.attention.output"},
    {{"layers.1.attention.output.bias"}, 3.2e38F, "layers.1.attention.residual"},
    {{"layers.1.norm_2.weight", "layers.1.norm_2.bias"}, 3e38F, "layers.1.mlp.norm_2"},
    {{"layers.1.mlp.up.weight"}, 3e38F, "layers.1.mlp.activated"},
    {{"layers.1.mlp.down.weight"}, 3e38F, "layers.1.mlp.output"},
    {{"layers.1.mlp.down.bias"}, 3.2e38F, "layers.1.mlp.residual"},
    {{"final_norm.weight", "final_norm.bias"}, 3e38F, "head.final_norm"},
    {{"head.weight"}, 3e38F, "head.logits"}};

TEST(NotFinite, InAnActivationOfAnyLayer) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Overflow& overflow : kOverflows) {
      Toy toy(stored_as(dtype));
      for (const char* name : overflow.weights) {
        const View weight = toy.weight(name);
        toy.set(weight, overflow.value, 0, weight.num_elements());
      }
      EXPECT_EQ(toy.caught(), std::string("activation ") + overflow.named) << name_of(dtype);
    }
  }
}

/// The two texts of an encoder-decoder go through one table of tokens.
TEST(NotFinite, InWhatAnEncoderReads) {
  Settings settings = megalith::testing::toy_encoder_decoder_settings();
  settings.model.embedding.scale = 4;
  Toy toy(settings);
  std::vector<data::HostBatch> batches = toy.batches(2);
  const int32_t token = batches[0].encoder.ids_T[0];
  for (data::HostBatch& batch : batches)
    std::ranges::replace(batch.ids_T, token, token == 0 ? 1 : 0);
  const int64_t hidden = settings.model.hidden;
  toy.set(toy.weight("embedding.weight"), 3e38F, token * hidden, hidden);
  EXPECT_EQ(toy.caught(batches, toy_weight(settings, 2)), "activation encoder.embedding.output");
}

TEST(NotFinite, InAMoment) {
  Toy toy;
  const auto step = [](Toy& t) { t.engine.step(1, 1e-2, t.batches(2), toy_weight(t.settings, 2)); };
  toy.set(toy.engine.optimizer().states(4)[1], std::numeric_limits<float>::infinity());
  step(toy);
  const std::string name = toy.engine.parameters().all()[4].name();
  EXPECT_FALSE(update_is_finite(toy.engine));
  EXPECT_THAT([&] { refuse_update(toy.engine, 1); },
              ::testing::ThrowsMessage<DoNotRestartError>(HasSubstr("second moment of " + name)));
  Toy healthy;
  EXPECT_TRUE(update_is_finite(healthy.engine));
  step(healthy);
  EXPECT_TRUE(update_is_finite(healthy.engine));
}

// Finite logits whose difference is beyond the largest number: all gradients of them are finite.
TEST(NotFinite, InALoss) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double z_loss : {0.0, 1e-3}) {  // whose gradient is infinite then
      Settings settings = stored_as(dtype);
      settings.z_loss = z_loss;
      Toy toy(settings);
      auto batches = toy.batches(2);
      const auto& targets = batches[0].targets_T;
      int64_t likely = 0;  // the one id that all tokens are sure of
      while (likely == targets[0] || likely == targets[1]) ++likely;
      const View gain = toy.weight("final_norm.weight"), bias = toy.weight("final_norm.bias"),
                 head = toy.weight("head.weight");
      const int64_t hidden = head.size(1);
      toy.set(gain, 0, 0, hidden);
      toy.set(bias, 1, 0, hidden);
      const float each = 1.9e38F / static_cast<float>(hidden);
      toy.set(head, -each, 0, settings.model.vocab * hidden);
      toy.set(head, each, likely * hidden, hidden);
      const double weight = toy_weight(toy.settings, 2);
      EXPECT_EQ(toy.caught(batches, weight), "loss of token 0 of sample 8");
      batches[0].loss_weight_T[0] = 0;  // its loss may be anything
      EXPECT_EQ(toy.caught(batches, weight - 1), "loss of token 1 of sample 8");
    }
  }
}

TEST(NotFinite, InAnActivation) {
  for (const layers::Recompute mode : {layers::Recompute::none, layers::Recompute::full}) {
    Settings settings = toy_settings();
    settings.recompute.mode = mode;
    Toy toy(settings);
    // The norm's output is at most a few 1e37; a product with weights of 1e3 is not finite.
    const View gain = toy.weight("layers.1.norm_2.weight"),
               up = toy.weight("layers.1.mlp.up.weight");
    toy.set(gain, 1e37F, 0, gain.num_elements());
    toy.set(up, 1e3F, 0, up.num_elements() / 2);
    EXPECT_EQ(toy.caught(), "activation layers.1.mlp.activated");
  }
}

TEST(NotFinite, InAGradientWithAFiniteLoss) {
  Toy toy;
  // All loss weights together are so small that their scale overflows f32; the loss itself is f64.
  EXPECT_EQ(toy.caught(toy.batches(2), 1e-40), "gradient head.logits_gradient");
}

/// Weights with which forward and every gradient before the named one are finite: what a norm puts
/// out is zero, so that the values behind it matter to gradients alone. Losses are scaled by 1e6.
struct Spoilt {
  std::vector<std::pair<const char*, float>> weights;
  const char* scaled;  // the first quarter of it is too large
  float value;
  const char* named;
};
const std::vector<Spoilt> kSpoilt = {
    {{{"final_norm.weight", 0.F}}, "head.weight", 3e38F, "gradient head.input_gradient"},
    {{{"layers.1.norm_2.weight", 0.F}},
     "layers.1.mlp.down.weight",
     3e38F,
     "gradient layers.1.mlp.activated_gradient"},
    {{{"layers.1.norm_2.weight", 0.F}},
     "layers.1.mlp.up.weight",
     3e38F,
     "gradient layers.1.mlp.input_gradient"},
    {{{"layers.1.norm_1.weight", 0.F}},
     "layers.1.attention.output.weight",
     3e38F,
     "gradient layers.1.attention.qkv_gradient"},
    {{{"layers.1.norm_1.weight", 0.F}},
     "layers.1.attention.qkv.weight",
     3e38F,
     "gradient layers.1.attention.input_gradient"},
    {{{"final_norm.weight", 0.F}, {"head.weight", 0.F}},
     "final_norm.bias",
     1e38F,
     "gradient of head.weight"}};

TEST(NotFinite, InAGradientOfAnyLayer) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Spoilt& spoilt : kSpoilt) {
      Toy toy(stored_as(dtype));
      for (const auto& [name, value] : spoilt.weights) {
        const View weight = toy.weight(name);
        toy.set(weight, value, 0, weight.num_elements());
      }
      for (const char* bias : {"layers.1.norm_1.bias", "layers.1.attention.qkv.bias",
                               "layers.1.norm_2.bias", "layers.1.mlp.up.bias", "final_norm.bias"}) {
        const View zero = toy.weight(bias);
        toy.set(zero, 0, 0, zero.num_elements());
      }
      const View scaled = toy.weight(spoilt.scaled);
      toy.set(scaled, spoilt.value, 0, scaled.num_elements() / 4);
      EXPECT_EQ(toy.caught(toy.batches(2), 1e-6), spoilt.named) << name_of(dtype);
    }
  }
}

TEST(NotFinite, InTheInput) {
  Toy toy;
  auto batches = toy.batches(2);
  batches[1].loss_weight_T[17] = kNan;
  EXPECT_EQ(toy.caught(batches, toy_weight(toy.settings, 2)),
            "the input: the loss weight of token 1 of sample 11 is nan");
  for (auto& batch : batches) std::ranges::fill(batch.loss_weight_T, 0.0F);
  EXPECT_THAT(toy.caught(batches, 0), HasSubstr("sum to 0"));
}

TEST(NotFinite, AReplayLeavesNoTrace) {
  Toy a, b;
  EXPECT_THAT(first_not_finite(a.engine, 2, a.batches(2), toy_weight(a.settings, 2)),
              HasSubstr("nothing on a second run"));
  for (Toy* toy : {&a, &b})
    toy->engine.step(2, 1e-2, toy->batches(2), toy_weight(toy->settings, 2));
  EXPECT_EQ(a.state(), b.state());
}

TEST(NotFinite, ASkippedStepDoesNotCountForTheOptimizer) {
  Toy a, b;
  auto bad = a.batches(2);
  bad[0].loss_weight_T[0] = kNan;
  a.engine.step(2, 1e-2, bad, toy_weight(a.settings, 2));
  // The same samples, under the same number for dropout.
  a.engine.step(3, 1e-2, a.batches(3), toy_weight(a.settings, 3), 1);
  Toy c;
  b.engine.step(3, 1e-2, b.batches(3), toy_weight(b.settings, 3), 1);
  c.engine.step(3, 1e-2, c.batches(3), toy_weight(c.settings, 3), 0);
  EXPECT_EQ(a.state(), b.state());
  EXPECT_NE(a.state(), c.state());
}

/// Spoils a rank's part of a step and gives its global weight.
using Spoil = FunctionRef<double(Engine&, std::vector<data::HostBatch>&)>;

/// What every rank of `settings` names in a first step that `spoil` has spoilt.
std::vector<std::string> named_by_ranks(const Settings& settings, Spoil spoil) {
  std::vector<std::string> named(static_cast<size_t>(settings.layout.num_ranks()));
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    const parallel::Mesh mesh(world, settings.layout);
    Engine engine(settings, *device, mesh);
    engine.initialise();
    auto batches = toy_micro_batches(settings, 1, mesh.at().data);
    const double weight = spoil(engine, batches);
    EXPECT_FALSE(engine.step(1, 1e-2, batches, weight).applied);
    named[static_cast<size_t>(world.rank())] = first_not_finite(engine, 1, batches, weight);
  });
  return named;
}

/// A weight of one rank of a stage: all ones, which is not a number in f32 and in bf16.
const auto spoil_weight = [](Engine& engine, std::vector<data::HostBatch>&) {
  const parallel::Mesh& mesh = engine.mesh();
  const bool last =
      mesh.at().tensor + mesh.at().data == mesh.layout().tensor + mesh.layout().data - 2;
  if (auto* found = engine.parameters().find("layers.2.mlp.up.bias"); found != nullptr && last) {
    const View weight = found->mutable_compute();
    std::memset(weight.data(), 0xff, static_cast<size_t>(bytes_of(weight.dtype())));
  }
  return toy_weight(engine.settings(), 1);
};

/// The scale of every loss overflows.
const auto spoil_scale = [](Engine&, std::vector<data::HostBatch>&) { return 1e-40; };

TEST(NotFinite, AllRanksNameTheSame) {
  Settings cut = toy_settings(), spread = toy_settings(), mixed = toy_settings();
  cut.layout = {.tensor = 2, .pipeline = 2};
  spread.layout = {.data = 2};
  spread.zero = 1;
  mixed.layout = {.tensor = 2, .data = 2};
  mixed.zero = 1;
  mixed.weights = DType::bf16;
  for (const Settings& settings : {cut, spread, mixed}) {
    for (const bool in_gradient : {false, true}) {
      const auto named =
          named_by_ranks(settings, in_gradient ? Spoil(spoil_scale) : Spoil(spoil_weight));
      for (const std::string& text : named) EXPECT_EQ(text, named[0]);
      EXPECT_THAT(named[0], HasSubstr(in_gradient ? "gradient head.logits_gradient on rank"
                                                  : "weight layers.2.mlp.up.bias on rank"));
    }
  }
}

// After the reduction all data ranks hold gradients that are not finite; only one has the cause.
TEST(NotFinite, TheDataRankWithTheCauseIsNamed) {
  Settings settings = toy_settings();
  settings.layout = {.data = 2};
  const auto named =
      named_by_ranks(settings, [](Engine& engine, std::vector<data::HostBatch>& batches) {
        if (engine.mesh().at().data == 0) batches[0].loss_weight_T[0] = 3e38F;
        return 1e-3;
      });
  for (const std::string& text : named) {
    EXPECT_THAT(text, HasSubstr("gradient head.logits_gradient"));
    EXPECT_THAT(text, HasSubstr("on rank 0"));
  }
}

}  // namespace
}  // namespace megalith::engine
