// SPDX-License-Identifier: Apache-2.0
#include "data/blend.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "data/test_corpus.h"

namespace megalith::data {
namespace {

TEST(Blend, OneCorpusIsTheIdentity) {
  const Blend blend = Blend::from_weights(std::vector<double>{0.3});
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{12345}, (int64_t{1} << 62) - 1}) {
    EXPECT_EQ(blend.choose(n).corpus, 0);
    EXPECT_EQ(blend.choose(n).number, n);
  }
}

TEST(Blend, CountsStayWithinTheDepthOfTheTreeAtEveryMoment) {
  std::mt19937_64 random(7);
  for (const size_t corpora : {2u, 3u, 5u, 8u, 17u}) {
    std::vector<int64_t> weights(corpora);
    int64_t sum = 0;
    for (auto& weight : weights) sum += weight = 1 + static_cast<int64_t>(random() % 1000000007);
    const Blend blend(weights);
    const double bound = std::bit_width(static_cast<unsigned>(corpora - 1));
    std::vector<int64_t> counts(corpora, 0);
    for (int64_t n = 0; n < 20000; ++n) {
      const Blend::Choice choice = blend.choose(n);
      auto& count = counts[static_cast<size_t>(choice.corpus)];
      ASSERT_EQ(choice.number, count) << "gap in corpus " << choice.corpus << " at " << n;
      ++count;
      for (size_t k = 0; k < corpora; ++k) {
        const double share =
            static_cast<double>(n + 1) * static_cast<double>(weights[k]) / static_cast<double>(sum);
        ASSERT_LT(std::abs(static_cast<double>(counts[k]) - share), bound + 1e-6)
            << corpora << " corpora, corpus " << k << ", n " << n;
      }
    }
    for (size_t k = 0; k < corpora; ++k) {
      EXPECT_EQ(blend.count(static_cast<int64_t>(k), 20000), counts[k]);
    }
  }
}

TEST(Blend, WeightsThatAreCountsGiveEachCorpusItsCountExactly) {
  const std::vector<int64_t> weights = {3, 0, 5, 1, 13};
  const Blend blend(weights);
  for (int64_t epochs = 1; epochs < 4; ++epochs) {
    for (size_t k = 0; k < weights.size(); ++k) {
      EXPECT_EQ(blend.count(static_cast<int64_t>(k), 22 * epochs), weights[k] * epochs);
    }
  }
  for (int64_t n = 0; n < 1000; ++n) EXPECT_NE(blend.choose(n).corpus, 1);
}

TEST(Blend, NumbersStayExactFarOut) {
  const std::vector<int64_t> weights = {(int64_t{1} << 61) - 1, (int64_t{1} << 61) - 3, 2};
  const Blend blend(weights);
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    const auto n = static_cast<int64_t>(random() >> 2) - 1;
    const Blend::Choice choice = blend.choose(n);
    // The n-th sample is number count(corpus, n) of its corpus, and counting it adds one there.
    ASSERT_EQ(choice.number, blend.count(choice.corpus, n));
    ASSERT_EQ(choice.number + 1, blend.count(choice.corpus, n + 1));
  }
}

TEST(Blend, ScaleOfTheWeightsDoesNotMatter) {
  const Blend a = Blend::from_weights(std::vector<double>{1, 2, 5});
  const Blend b = Blend::from_weights(std::vector<double>{0.25, 0.5, 1.25});
  const Blend c(std::vector<int64_t>{1, 2, 5});
  for (int64_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(a.choose(n).corpus, b.choose(n).corpus);
    EXPECT_EQ(a.choose(n).corpus, c.choose(n).corpus);
  }
}

TEST(Blend, TinyWeightIsNotLost) {
  const Blend blend = Blend::from_weights(std::vector<double>{1e300, 1e-300});
  EXPECT_EQ(blend.count(1, int64_t{1} << 50),
            (int64_t{1} << 50) - blend.count(0, int64_t{1} << 50));
  EXPECT_GE(blend.count(1, int64_t{1} << 50), 1);
}

TEST(Blend, WeightsThatMeanNothingAreRefused) {
  using Weights = std::vector<double>;
  for (const Weights& weights :
       {Weights{1, -1}, Weights{1, NAN}, Weights{INFINITY}, Weights{0, 0}, Weights{}}) {
    EXPECT_THROW(Blend::from_weights(weights), UserError);
  }
}

}  // namespace
}  // namespace megalith::data
