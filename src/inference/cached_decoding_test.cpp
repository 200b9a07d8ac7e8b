// SPDX-License-Identifier: Apache-2.0
// The trainer, the scorer and the generator agree to the bit: the training forward's logits and
// losses of a text against reading it through the cache in chunks of any size. The text is longer
// than three blocks of keys, so chunk edges fall inside and between them.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "comm/backends.h"
#include "inference/inference_model.h"
#include "testing/layer_case.h"

namespace megalith::inference {
namespace {

using megalith::testing::LayerCase;

struct Choice {
  const char* model;
  DType dtype;
  bool materialised;
  int64_t kv_heads;
  layers::QkNorm first_qk_norm = layers::QkNorm::none;
};

class CachedDecoding : public ::testing::TestWithParam<Choice> {
 protected:
  static constexpr int64_t kTokens = 200;

  static engine::Settings settings() {
    const std::string_view name = GetParam().model;
    engine::Settings settings = megalith::testing::toy_settings();
    if (name == "llama")
      settings.model = megalith::testing::toy_llama_settings().model;
    else if (name == "relative")
      settings.model = megalith::testing::toy_relative_settings().model;
    else if (name != "gpt2")
      settings = megalith::testing::toy_family_settings(models::family_named(name, "test"));
    else
      settings.model.set_num_layers(2);
    if (GetParam().first_qk_norm != layers::QkNorm::none)
      settings.model.layers[0].attention.qk_norm = GetParam().first_qk_norm;
    if (GetParam().kv_heads == 1) settings.model.head.softcap = 6;
    settings.model.context = kTokens;
    settings.model.dropout = 0;
    testing::set_materialised(settings.model, GetParam().materialised);
    testing::set_kv_heads(settings.model, GetParam().kv_heads);
    settings.split.tensor_shards = 2;
    settings.weights = settings.activations = GetParam().dtype;
    return settings;
  }

  void SetUp() override {
    trained_.place();
    for (const parameters::Parameter& parameter : trained_.parameters().all()) {
      parameters::Parameter* const mine = model_.parameters().find(parameter.name());
      ASSERT_NE(mine, nullptr) << parameter.name();
      device_->copy(mine->mutable_compute(), parameter.compute());
    }
    const int32_t* ids = trained_.batch().ids_T.as<int32_t>();
    ids_.assign(ids, ids + kTokens);
    run_training_forward();
  }

  /// Logits of every token and losses, by the path that training takes.
  void run_training_forward() {
    layers::Context context = trained_.context();
    models::DecoderSaved saved;
    decoder_.forward(context, trained_.batch(), saved, {});
    logits_ = context.workspace(
        DType::f32, Shape{kTokens, settings().model.padded_vocab(settings().split.tensor_shards)});
    decoder_.logits(context, saved.output_RH, logits_);
    const device::Tensor dx = context.workspace(context.activation, saved.output_RH.view.shape());
    loss_ = context.workspace(DType::f32, Shape{kTokens});
    decoder_.loss(context, trained_.batch(), saved, 0, loss_, dx);
  }

  std::vector<float> logits_after(int64_t token) const {
    const float* row = logits_.view.row<float>(token);
    return {row, row + settings().model.vocab};
  }

  LayerCase trained_{settings(), 1};
  models::Decoder decoder_{settings().model, trained_.parameters(),
                           models::Stage::whole(settings().model), trained_.partition()};
  std::unique_ptr<device::Device> device_ = device::make_cpu_device(2);
  InferenceModel model_{
      settings().model, *device_, {GetParam().dtype, kernels::Numerics::exact, 2}};
  std::vector<int32_t> ids_;
  device::Tensor logits_, loss_;
};

TEST_P(CachedDecoding, LogitsHaveTheBitsOfTheTrainingForwardForEveryChunkSize) {
  for (const int64_t chunk : {1, 7, 64, 200}) {
    KvCache cache = model_.engine().make_cache(kTokens);
    for (int64_t at = 0; at < kTokens; at += chunk) {
      const int64_t count = std::min(chunk, kTokens - at);
      const auto part =
          std::span(ids_).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
      ASSERT_EQ(model_.engine().extend(cache, part), logits_after(at + count - 1))
          << "chunk " << chunk << " at " << at;
    }
  }
}

/// Going back and reading on is as if the forgotten part had never been read.
TEST_P(CachedDecoding, TruncatedCacheForgets) {
  KvCache cache = model_.engine().make_cache(kTokens);
  std::vector<int32_t> other = ids_;
  for (size_t i = 90; i < other.size(); ++i) other[i] = (other[i] + 1) % 100;
  model_.engine().extend(cache, other);
  cache.set_length(90);
  EXPECT_EQ(model_.engine().extend(cache, std::span(ids_).subspan(90, 60)), logits_after(149));
}

TEST_P(CachedDecoding, ScoresHaveTheBitsOfTheTrainingLoss) {
  const std::vector<double> scores = model_.engine().score(ids_);
  ASSERT_EQ(scores.size(), static_cast<size_t>(kTokens - 1));
  for (size_t i = 0; i < scores.size(); ++i) {
    ASSERT_EQ(scores[i], -static_cast<double>(loss_.view.as<float>()[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Choices, CachedDecoding,
    ::testing::Values(Choice{"gpt2", DType::f32, false, 4}, Choice{"gpt2", DType::f32, true, 2},
                      Choice{"gpt2", DType::bf16, false, 2}, Choice{"llama", DType::f32, false, 2},
                      Choice{"llama", DType::bf16, false, 4},
                      Choice{"llama", DType::bf16, false, 1},
                      Choice{"llama", DType::f32, false, 1, layers::QkNorm::whole},
                      Choice{"gpt2", DType::bf16, false, 4, layers::QkNorm::whole},
                      Choice{"relative", DType::f32, true, 4},
                      Choice{"relative", DType::bf16, false, 2},
                      Choice{"gpt2", DType::f16, true, 2}, Choice{"llama", DType::f16, false, 4}));

INSTANTIATE_TEST_SUITE_P(Families, CachedDecoding,
                         ::testing::Values(Choice{"gpt_neox", DType::f32, false, 8},
                                           Choice{"mistral", DType::f32, false, 4},
                                           Choice{"qwen2", DType::bf16, false, 4},
                                           Choice{"qwen3", DType::f32, false, 4},
                                           Choice{"gemma", DType::f32, false, 4},
                                           Choice{"gemma2", DType::bf16, false, 4},
                                           Choice{"gemma3_text", DType::f32, false, 4},
                                           Choice{"phi3", DType::f32, false, 4},
                                           Choice{"olmo2", DType::f32, false, 4},
                                           Choice{"starcoder2", DType::bf16, false, 4}));

// A data rank that writes no samples waits for one that does: a prompt of many chunks takes several
// deadlines.
TEST(Prefill, OfManyDeadlinesIsNoHang) {
  models::ModelSpec spec = testing::toy_settings().model;
  spec.context = 32 * 512;
  const std::vector<int32_t> ids(static_cast<size_t>(spec.context), 7);
  // The device is the caller's: ranks still speak through it afterwards.
  const auto prefill = [&](comm::Communicator& world, device::Device& device) {
    InferenceModel model(spec, device, world, {});
    model.parameters().initialise(device, 1);
    KvCache cache = model.engine().make_cache(spec.context);
    const double begin = monotonic_seconds();
    model.engine().extend(cache, ids);
    return monotonic_seconds() - begin;
  };
  double alone = 0;
  comm::run_ranks(
      1, [&](comm::Communicator& world) { alone = prefill(world, *device::make_cpu_device(1)); });
  const auto hangs = [&] {
    try {
      comm::run_ranks(2, [&](comm::Communicator& world) {
        const std::vector<comm::Membership> table{{0, 0}, {1, 0}};
        const auto device = device::make_cpu_device(1);
        const auto group = world.split(table, "model");
        world.barrier("start");
        world.set_deadline(alone / 4);
        if (world.rank() == 0) prefill(*group, *device);
        world.barrier("samples");
      });
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  bool hung = hangs();
  for (int again = 0; hung && again < 3; ++again) hung = hangs();  // a machine may stop a rank
  EXPECT_FALSE(hung) << alone;
}

}  // namespace
}  // namespace megalith::inference
