// SPDX-License-Identifier: Apache-2.0
#include "evaluate/perplexity.h"

#include "inference/inference_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "evaluate/windows.h"
#include "families/families.h"

namespace megalith::evaluate {
namespace {

class PerplexityTest : public testing::Test {
 protected:
  PerplexityTest() : device_(device::make_cpu_device(1)) {
    models::ModelSpec a =
        models::gpt2({.layers = 1, .hidden = 16, .heads = 2, .ffn = 32, .context = 8, .vocab = 20});
    a.init_std = 0.3;
    model_ = std::make_unique<inference::InferenceModel>(a, *device_,
                                                         inference::InferenceModel::Options{});
    model_->parameters().initialise(*device_, 7);
  }
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<inference::InferenceModel> model_;
};

TEST(Words, AreRunsOfNonBlanks) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words("  a b\n\tc  "), 3);
  EXPECT_EQ(count_words("one"), 1);
}

TEST_F(PerplexityTest, OneWindowIsTheSumOfScores) {
  const std::vector<int32_t> ids{3, 1, 4, 1, 5};
  double nll = 0;
  for (const double x : model_->engine().score(ids)) nll -= x;
  const Perplexity p = perplexity(model_->engine(), ids, "a b c");
  EXPECT_EQ(p.tokens, 4);
  EXPECT_EQ(p.nll, nll);
  EXPECT_DOUBLE_EQ(p.perplexity(), std::exp(nll / 4));
  EXPECT_DOUBLE_EQ(p.bits_per_byte(), nll / (5 * std::log(2.0)));
}

// Windows of 8 by strides of 4: tokens 8.. are predicted by the window that holds at least 4
// before.
TEST_F(PerplexityTest, EveryTokenIsPredictedOnceWithItsContext) {
  std::vector<int32_t> ids(19);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 20);
  double nll = 0;
  for (size_t token = 1; token < ids.size(); ++token) {
    const size_t begin = token < 8 ? 0 : (token - 4) / 4 * 4;
    const auto scores = model_->engine().score(std::span(ids).subspan(begin, token - begin + 1));
    nll -= scores.back();
  }
  const Perplexity p = perplexity(model_->engine(), ids, "x");
  EXPECT_EQ(p.tokens, 18);
  EXPECT_NEAR(p.nll, nll, 1e-12);
}

TEST_F(PerplexityTest, DocumentsAreScoredApart) {
  const std::vector<std::vector<int32_t>> documents{{3, 1, 4}, {}, {5}};
  const int32_t end = 19;
  const auto nll = [&](std::vector<int32_t> ids) {
    double sum = 0;
    for (const double x : model_->engine().score(ids)) sum -= x;
    return sum;
  };
  const Perplexity p = document_perplexity(model_->engine(), documents, end, "abc d\ne");
  EXPECT_EQ(p.tokens, 3 + 1 + 1 + 1);
  EXPECT_NEAR(p.nll, nll({end, 3}) + nll({3, 1, 4, end}) + nll({end, 5}) + nll({5, end}), 1e-12);
  EXPECT_EQ(p.words, 3);
  EXPECT_EQ(p.bytes, 7);
}

TEST(Windows, OfOneTokenPredictNothing) {
  const std::vector<int32_t> ids{3, 1, 4};
  const auto windows = [&](int64_t context) {
    std::vector<std::vector<int32_t>> all;
    for_each_window(ids, context, [&](std::span<const int32_t> window, int64_t) {
      all.emplace_back(window.begin(), window.end());
    });
    return all;
  };
  EXPECT_EQ(windows(2), (std::vector<std::vector<int32_t>>{{3, 1}, {1, 4}}));
  for (const int64_t context : {1, 0, -3}) EXPECT_THROW(windows(context), UserError) << context;
}

TEST_F(PerplexityTest, OneTokenPredictsNothing) {
  const std::vector<int32_t> ids{3};
  EXPECT_THROW(perplexity(model_->engine(), ids, "x"), UserError);
}

}  // namespace
}  // namespace megalith::evaluate
