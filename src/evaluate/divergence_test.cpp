// SPDX-License-Identifier: Apache-2.0
#include "evaluate/divergence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "families/families.h"
#include "inference/inference_model.h"

namespace megalith::evaluate {
namespace {

class DivergenceTest : public testing::Test {
 protected:
  DivergenceTest() : device_(device::make_cpu_device(1)) {
    for (size_t i = 0; i < 25; ++i) ids_.push_back(static_cast<int32_t>(i * 7 % 20));
  }
  std::unique_ptr<inference::InferenceModel> model(uint64_t seed, int64_t vocab = 20) {
    models::ModelSpec spec = models::gpt2(
        {.layers = 1, .hidden = 16, .heads = 2, .ffn = 32, .context = 8, .vocab = vocab});
    spec.init_std = 0.3;
    auto made = std::make_unique<inference::InferenceModel>(spec, *device_,
                                                            inference::InferenceModel::Options{});
    made->parameters().initialise(*device_, seed);
    return made;
  }
  std::unique_ptr<device::Device> device_;
  std::vector<int32_t> ids_;
};

TEST_F(DivergenceTest, OfAModelFromItselfIsZero) {
  const auto one = model(7);
  const Divergence d = divergence(one->engine(), one->engine(), ids_);
  EXPECT_EQ(d.tokens, 24);
  EXPECT_EQ(d.kl, 0);
  EXPECT_EQ(d.same_choice_fraction(), 1);
  EXPECT_EQ(d.nll, d.other_nll);
  EXPECT_NEAR(d.nll, perplexity(one->engine(), ids_, "x").nll, 1e-4);
}

TEST_F(DivergenceTest, IsThatOfTheDistributions) {
  const auto one = model(7), two = model(8);
  // A window that holds all: a token at a time with a cache gives the logits.
  const std::vector<int32_t> ids(ids_.begin(), ids_.begin() + 6);
  double kl = 0, nll = 0, other_nll = 0;
  inference::KvCache first = one->engine().make_cache(8), second = two->engine().make_cache(8);
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    const auto probabilities = [&](inference::InferenceModel& of, inference::KvCache& cache) {
      std::vector<double> p;
      double sum = 0;
      for (const float logit : of.engine().extend(cache, std::span(ids).subspan(t, 1))) {
        p.push_back(std::exp(static_cast<double>(logit)));
        sum += p.back();
      }
      for (double& each : p) each /= sum;
      return p;
    };
    const std::vector<double> p = probabilities(*one, first), q = probabilities(*two, second);
    for (size_t v = 0; v < p.size(); ++v) kl += p[v] * std::log(p[v] / q[v]);
    nll -= std::log(p[static_cast<size_t>(ids[t + 1])]);
    other_nll -= std::log(q[static_cast<size_t>(ids[t + 1])]);
  }
  const Divergence d = divergence(one->engine(), two->engine(), ids);
  EXPECT_GT(kl, 0.01);
  EXPECT_NEAR(d.mean_kl(), kl / 5, 1e-9);
  EXPECT_NEAR(d.perplexity(), std::exp(nll / 5), 1e-7);
  EXPECT_NEAR(d.other_perplexity(), std::exp(other_nll / 5), 1e-7);
}

TEST_F(DivergenceTest, NeedsOneVocabularyAndTwoTokens) {
  const auto one = model(7), other = model(7, 21);
  EXPECT_THROW(divergence(one->engine(), other->engine(), ids_), UserError);
  EXPECT_THROW(divergence(one->engine(), one->engine(), std::span(ids_).first(1)), UserError);
}

}  // namespace
}  // namespace megalith::evaluate
